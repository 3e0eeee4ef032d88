"""A link that disappears while its target is resolved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.main import create_app
from tests.service import PROJECT, TOOLS
from worker.settings import LOCAL_MODEL, Settings


@pytest.fixture(scope="module")
def client(database_url: str, root: Path) -> Iterator[TestClient]:
    settings = Settings(
        database_url=database_url, default_embedding_model=LOCAL_MODEL, local_source_roots=[root], auth="off"
    )
    with TestClient(create_app(settings), base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as made:
        yield made


@pytest.fixture(params=["it is gone", "it never holds still"])
def link(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A link to a folder that disappears between the two lookups of `os.path.realpath`."""
    (root / "folder").mkdir(exist_ok=True)
    made = root / "link"
    made.symlink_to(root / "folder")
    read = os.readlink

    def vanish(path: str) -> str:
        if path == str(made):
            made.unlink(missing_ok=True)
            if request.param == "it is gone":
                return read(path)
            made.symlink_to(root / "folder")
            raise FileNotFoundError(path)
        return read(path)

    monkeypatch.setattr("posixpath.os.readlink", vanish)
    request.addfinalizer(lambda: made.unlink(missing_ok=True))  # noqa: PT021 - nothing is left to be given
    return made


def _create(client: TestClient, path: Path) -> Any:
    return client.post(TOOLS, json={"project_id": PROJECT, "source": {"kind": "local", "path": str(path)}})


def _search(client: TestClient, path: Path) -> Any:
    return client.post("/api/search", json={"project_id": PROJECT, "query": "anything", "paths": [str(path)]})


@pytest.mark.parametrize("ask", [_create, _search])
def test_a_link_that_vanishes_answers_as_a_missing_place(
    client: TestClient, link: Path, ask: Callable[[TestClient, Path], Any]
) -> None:
    missing = link.with_name("none")
    expected, answer = ask(client, missing), ask(client, link)
    assert answer.status_code == expected.status_code == 422
    assert answer.json()["code"] == expected.json()["code"]
    assert answer.text.replace(str(link), "PLACE") == expected.text.replace(str(missing), "PLACE")
