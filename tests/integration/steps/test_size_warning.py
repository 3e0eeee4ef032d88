"""The status of a folder, and its estimate, warn if it has more chunks than its store searches quickly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.indexers import chunks
from api.indexers.estimates import estimate_of
from tests.integration.steps.site import Site
from worker.state.index import tasks
from worker.stores import LANCE_CHUNKS, STORES


def _warning(site: Site) -> str | None:
    row = tasks.newest_of_tool(site.pool, site.tool)
    assert row is not None
    return chunks.shown_status(site.tool, row).warning


@pytest.mark.parametrize(("number", "store", "warns"), [
    (LANCE_CHUNKS, "lancedb", False),
    (LANCE_CHUNKS + 1, "lancedb", True),
    (LANCE_CHUNKS + 1, "turbopuffer", False),
])  # fmt: skip # a case a line
def test_a_status_warns_of_a_folder_that_is_too_large(site: Site, number: int, store: str, warns: bool) -> None:
    site.do("UPDATE search_index_task SET total_chunks = %s WHERE id = %s", number, site.task)
    site.do("UPDATE search_index SET vector_store = %s WHERE id = %s", store, site.index.id)
    warning = _warning(site)
    assert (warning is not None) is warns
    if warning:
        assert f"this folder has {number:,}; split it, or set VECTOR_STORE=turbopuffer" in warning
    history = [chunks.shown_status(site.tool, row).warning for row in tasks.history(site.pool, site.tool, None, 9)]
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
    monkeypatch.setitem(STORES, "lancedb", replace(STORES["lancedb"], most_chunks=most))
    for number in range(60):
        (site.folder / f"many{number}.md").write_text("Apples and pears ripen late. " * 1_000)
    found = estimate_of(site.wanted(), site.resources)
    assert 5_000 < found.by_granularity["definition"].chunks.expected < 15_000
    assert any("split it" in note for note in found.notes) is warns
