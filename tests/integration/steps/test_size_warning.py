"""The status of a folder, and its estimate, warn if it has more chunks than its store searches quickly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from psycopg.types.json import Jsonb

from api.indexers import chunks
from api.indexers.estimates import estimate_of
from tests.integration.steps.site import Site
from worker.state.index import statuses
from worker.stores import LANCE_CHUNKS, STORES


def _warning(site: Site) -> str | None:
    task = statuses.newest_of_tool(site.pool, site.tool)
    assert task is not None
    return chunks.shown_status(task).warning


@pytest.mark.parametrize(("number", "store", "dimensions", "remedy"), [
    (LANCE_CHUNKS, "lancedb", 384, None),
    (LANCE_CHUNKS + 1, "lancedb", 384, "split it, or set VECTOR_STORE=turbopuffer"),
    # 80 % of 500 M rows, and of the rows that are 1 TB
    (400_000_000, "turbopuffer", 8, None),
    (400_000_001, "turbopuffer", 8, "split it before writes fail"),
    (357_781_752, "turbopuffer", 384, None),
    (357_781_753, "turbopuffer", 384, "split it before writes fail"),
    (46_827_440, "turbopuffer", 4096, None),
    (46_827_441, "turbopuffer", 4096, "split it before writes fail"),
])  # fmt: skip # a case a line
def test_a_status_warns_of_a_folder_that_is_too_large(
    site: Site, number: int, store: str, dimensions: int, remedy: str | None
) -> None:
    site.do("UPDATE search_index_task SET total_chunks = %s WHERE id = %s", number, site.task)
    changed = "vector_store = %s, settings = jsonb_set(settings, '{embedder,dimensions}', %s)"
    site.do(f"UPDATE search_index SET {changed} WHERE id = %s", store, Jsonb(dimensions), site.index.id)
    warning = _warning(site)
    assert (warning is not None) is (remedy is not None)
    if warning:
        assert f"this folder has {number:,}; {remedy}" in warning
    history = [chunks.shown_status(task).warning for task in statuses.history(site.pool, site.tool, None, 9)]
    assert history == [warning]


def test_a_size_is_told_beside_other_warnings(site: Site) -> None:
    site.do(
        "UPDATE search_index_task SET total_chunks = %s, warning = 'Waiting for X.' WHERE id = %s",
        *(LANCE_CHUNKS + 1, site.task),
    )
    warning = _warning(site)
    assert warning is not None
    assert warning.startswith("Searches are slow above")
    assert warning.endswith("again. Waiting for X.")


@pytest.mark.parametrize(("most", "warns"), [(9_999, True), (10_000, False)])
def test_an_estimate_warns_of_a_folder_that_would_be_too_large(
    site: Site, monkeypatch: pytest.MonkeyPatch, most: int, warns: bool
) -> None:
    monkeypatch.setitem(STORES, "lancedb", replace(STORES["lancedb"], most_chunks=lambda _: most))
    for number in range(60):
        (site.folder / f"many{number}.md").write_text("Apples and pears ripen late. " * 1_000)
    found = estimate_of(site.wanted(), site.resources)
    assert 5_000 < found.by_granularity["definition"].chunks.expected < 15_000
    assert any("split it" in note for note in found.notes) is warns
