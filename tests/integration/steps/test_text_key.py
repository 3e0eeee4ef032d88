"""Which form of text a new index gives its store, and under which key."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from api.routes.tools import wanted_index
from schemas.content.source import LocalSource
from schemas.errors import TextKeyMissing
from schemas.tool import ToolConfig
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.resources import Resources
from worker.state import text_keys
from worker.state.index import tools
from worker.state.index.tools import NewIndex
from worker.vectors.blind import BlindKey

SECRET = "a key of the tests"


@pytest.fixture
def made(resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resources]:
    with FakeTurbopuffer() as fake:
        given = {"turbopuffer_api_key": fake.api_key, "turbopuffer_base_url": fake.url, "vector_store": "turbopuffer"}
        settings = resources.settings.model_copy(update={**given, "local_source_roots": [tmp_path]})
        monkeypatch.setattr(resources, "settings", settings)
        yield resources


def wanted(resources: Resources, folder: Path, project: str, **settings: object) -> NewIndex:
    """What a tool would need with these settings."""
    before, resources.settings = resources.settings, resources.settings.model_copy(update=settings)
    try:
        return wanted_index(project, LocalSource(kind="local", path=str(folder)), ToolConfig(), resources)[0]
    finally:
        resources.settings = before


def test_a_new_index_has_hashes_only_where_others_operate_the_store(made: Resources, tmp_path: Path) -> None:
    kept = BlindKey.of(text_keys.keep(made.pool)).id
    assert wanted(made, tmp_path, "p").text_key == kept
    assert wanted(made, tmp_path, "p", vector_store_text="blind").text_key == kept
    assert wanted(made, tmp_path, "p", vector_store_text="plain").text_key is None
    assert wanted(made, tmp_path, "p", vector_store="lancedb").text_key is None
    assert wanted(made, tmp_path, "p", blind_token_key=SECRET).text_key == BlindKey.of(SECRET).id


def test_further_tools_over_a_folder_do_as_its_newest_index_does(made: Resources, tmp_path: Path) -> None:
    project = f"p-{uuid4().hex}"
    blind = wanted(made, tmp_path, project)
    for first, other in (({"vector_store_text": "plain"}, "blind"), ({"blind_token_key": SECRET}, "plain")):
        index = wanted(made, tmp_path, project, **first)
        tool, _ = tools.create(made.pool, index, name="", config=ToolConfig())
        assert wanted(made, tmp_path, project).identity == index.identity
        changed = wanted(made, tmp_path, project, vector_store_text=other)
        assert (changed.text_key is None) != (index.text_key is None)
        tools.delete(made.pool, tool)
    assert wanted(made, tmp_path, project).identity == blind.identity


def test_of_several_processes_at_a_time_one_makes_the_key(made: Resources) -> None:
    with made.pool.connection() as connection:
        connection.execute("DELETE FROM text_key")
    assert text_keys.read_kept(made.pool) is None
    with ThreadPoolExecutor(4) as threads:
        keys = set(threads.map(lambda _: text_keys.keep(made.pool), range(8)))
    assert keys == {text_keys.read_kept(made.pool)}
    assert len(keys.pop()) >= 32


def test_a_store_opens_with_either_key_and_no_other(made: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = BlindKey.of(text_keys.keep(made.pool)).id
    monkeypatch.setattr(made, "settings", made.settings.model_copy(update={"blind_token_key": SECRET}))
    for key in (kept, BlindKey.of(SECRET).id, None):
        assert made.store("turbopuffer", "store", key) is made.store("turbopuffer", "store", key)
    with pytest.raises(TextKeyMissing, match="id 0123"):
        made.store("turbopuffer", "store", "0123")
