"""New indexes keep keywords in the store, unless the first index of their folder has them in Postgres."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.routes.tools import wanted_index
from schemas.content.source import AnySource, LocalSource
from schemas.tool import ToolConfig
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.tools import NewIndex

STORES = ("lancedb", "turbopuffer")


def wanted(resources: Resources, source: AnySource, config: ToolConfig | None = None, **settings: object) -> NewIndex:
    """What a tool would need with these settings."""
    before, resources.settings = resources.settings, resources.settings.model_copy(update=settings)
    try:
        return wanted_index("keywords", source, config or ToolConfig(), resources)[0]
    finally:
        resources.settings = before


@pytest.mark.parametrize("store", STORES)
def test_an_index_keeps_its_keywords_in_postgres_and_the_next_folder_has_them_in_the_store(
    resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    other = next(name for name in STORES if name != store)
    old, new = tmp_path / f"{store}-old", tmp_path / f"{store}-new"
    sources = [LocalSource(kind="local", path=str(folder)) for folder in (old, new)]
    with FakeTurbopuffer() as fake:
        given: dict[str, object] = {"turbopuffer_api_key": fake.api_key, "turbopuffer_base_url": fake.url}
        given |= {"vector_store": store, "keyword_index": None, "local_source_roots": [tmp_path]}
        monkeypatch.setattr(resources, "settings", resources.settings.model_copy(update=given))
        for folder in (old, new):
            folder.mkdir()
        first = wanted(resources, sources[0], keyword_index="postgres")
        tool, _ = tools.create(resources.pool, first, name="", config=ToolConfig())

        assert wanted(resources, sources[0]).identity == first.identity
        assert wanted(resources, sources[0], ToolConfig(chunk_size=128)).keyword_index == "postgres"
        assert wanted(resources, sources[0], keyword_index="store").keyword_index == "store"
        assert wanted(resources, sources[0], vector_store=other).keyword_index == "store"
        assert wanted(resources, sources[1]).keyword_index == "store"

        tools.delete(resources.pool, tool)
        assert wanted(resources, sources[0]).keyword_index == "store"


def test_a_new_index_keeps_its_keywords_where_the_oldest_one_over_its_folder_does(
    resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"vector_store": "lancedb", "keyword_index": None, "local_source_roots": [tmp_path]}
    monkeypatch.setattr(resources, "settings", resources.settings.model_copy(update=given))
    source = LocalSource(kind="local", path=str(tmp_path))
    made = []
    for place, size in (("postgres", 64), ("store", 128)):
        config = ToolConfig(chunk_size=size)
        new = wanted(resources, source, config, keyword_index=place)
        made.append(tools.create(resources.pool, new, name="", config=config)[0])
    for tool, place in zip(made, ("postgres", "store"), strict=True):
        assert wanted(resources, source, ToolConfig(chunk_size=96)).keyword_index == place
        tools.delete(resources.pool, tool)
