"""Tools that uploads and searches make on the side: one over each folder, whoever asks and however often."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from api.main import create_app
from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.test_index_life import found
from tests.service import PROJECT, TOOLS, Service, checked, eventually
from worker.settings import Settings

ACROSS = "/api/search"
NODES = f"/api/projects/{PROJECT}/nodes"
UPLOADS = f"/api/projects/{PROJECT}/uploads"


@pytest.fixture
def folder(running: Service) -> str:
    return running.node(f"f{uuid4().hex[:8]}", "folder")


@pytest.fixture
def place(root: Path) -> Path:
    """A local folder without a tool."""
    made = root / uuid4().hex[:8]
    made.mkdir()
    (made / "harbour.md").write_text("# Harbour\n\nThe harbour opens at dawn.\n")
    return made


@pytest.fixture
def broken(running: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """An API of this process whose default model does not exist."""
    for name, value in {**running.env, "DEFAULT_EMBEDDING_MODEL": "local/no-such-model"}.items():
        monkeypatch.setenv(name, value)
    app = create_app(Settings())
    yield TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000))
    app.state.resources.pool.close()


def upload(client: Any, files: dict[str, bytes], **fields: str) -> dict[str, Any]:
    return checked(client.post(UPLOADS, files=[("files", part) for part in files.items()], data=fields), 200)


def across(client: Any, *paths: Path | str, **body: Any) -> dict[str, Any]:
    paths_of = [str(path) for path in paths]
    body = {"project_id": PROJECT, "query": "harbour", "mode": "keyword", "paths": paths_of, **body}
    return checked(client.post(ACROSS, json=body), 200)


def tools_over(running: Service, **source: str) -> list[str]:
    listed = running.get(TOOLS, project_id=PROJECT, limit=1000)["items"]
    return [tool["tool_id"] for tool in listed if source.items() <= tool["source"].items()]


def test_an_upload_makes_a_tool_that_follows_the_next_one(running: Service, folder: str) -> None:
    first = upload(running.client, {"sub/a.md": b"the firstword"}, parent_id=folder, index="true")
    tool = first["tool_id"]
    assert first["index_error"] is None
    running.wait(tool)
    assert found(running, tool, "firstword") == {"sub/a.md"}
    again = upload(running.client, {"b.md": b"the secondword"}, index="true", parent_id=folder)
    assert again["tool_id"] == tool
    eventually(lambda: found(running, tool, "secondword") == {"b.md"}, 60, running.logs)
    by_parameter = running.client.post(
        UPLOADS, files=[("files", ("c.md", b"c"))], params={"parent_id": folder, "index": "true"}
    )
    assert checked(by_parameter, 200)["tool_id"] == tool
    assert tools_over(running, node_id=folder) == [tool]
    assert running.get(f"{TOOLS}/{tool}")["config"]["auto_reindex"] is True


@pytest.mark.parametrize(
    ("config", "fits"),
    [
        ({"auto_reindex": True, "chunk_size": 100}, True),
        ({"auto_reindex": True, "types": ["markdown"]}, False),
        ({"auto_reindex": True, "exclude": ["*.log"]}, False),
        ({}, False),
    ],
)
def test_a_tool_that_follows_the_whole_folder_is_found(
    running: Service, folder: str, config: dict[str, Any], fits: bool
) -> None:
    tool = running.tool(node_id=folder, config=config)
    answer = upload(running.client, {"a.md": b"text"}, parent_id=folder, index="true")
    assert (answer["tool_id"] == tool) is fits


def test_a_tool_that_is_about_to_leave_files_out_is_not_found(running: Service, folder: str) -> None:
    tool = running.tool(node_id=folder, config={"auto_reindex": True})
    running.wait(tool)
    patched = running.client.patch(f"{TOOLS}/{tool}", json={"config": {"exclude": ["*.md"]}})
    assert checked(patched, 202)["tool_id"] == tool
    assert upload(running.client, {"a.md": b"text"}, parent_id=folder, index="true")["tool_id"] != tool


def test_uploads_at_the_same_time_make_one_tool(running: Service, folder: str) -> None:
    def send(number: int) -> str:
        return str(upload(running.client, {f"{number}.md": b"text"}, parent_id=folder, index="true")["tool_id"])

    with ThreadPoolExecutor(6) as senders:
        made = set(senders.map(send, range(12)))
    assert made == set(tools_over(running, node_id=folder))
    assert len(made) == 1


def test_files_are_stored_where_no_tool_can_be_made(running: Service, folder: str, broken: TestClient) -> None:
    answer = upload(broken, {"a.md": b"the keptword"}, parent_id=folder, index="true")
    assert (answer["tool_id"], answer["index_error"]["code"]) == (None, "embedding_model_refused")
    (item,) = answer["items"]
    assert running.get(f"{NODES}/{item['file_id']}")["content"] == "the keptword"
    # mended: the same upload again
    answer = upload(running.client, {"a.md": b"the keptword"}, parent_id=folder, index="true")
    assert answer["items"][0]["outcome"] == "updated"
    running.wait(answer["tool_id"])
    # a tool that is there already needs no provider
    assert upload(broken, {"a.md": b"x"}, parent_id=folder, index="true")["tool_id"] == answer["tool_id"]


def test_the_root_of_a_project_has_no_tool(running: Service) -> None:
    answer = upload(running.client, {f"{uuid4().hex}.md": b"text"}, index="true")
    assert answer["items"][0]["outcome"] == "created"
    assert (answer["tool_id"], answer["index_error"]["code"]) == (None, "invalid_request")
    assert "parent_id" in answer["index_error"]["detail"]


@pytest.mark.parametrize("index", ["maybe", "", "x" * 2000])
def test_an_unclear_index_stores_nothing(running: Service, folder: str, index: str) -> None:
    sent = running.client.post(UPLOADS, files=[("files", ("a.md", b"x"))], data={"parent_id": folder, "index": index})
    assert checked(sent, 422)["code"] == "invalid_request"
    assert "index" in sent.json()["detail"]
    assert running.get(NODES, parent_id=folder)["items"] == []


def test_without_index_no_tool_is_made(running: Service, folder: str) -> None:
    answer = upload(running.client, {"a.md": b"x"}, parent_id=folder, index="false")
    assert (answer["tool_id"], answer["index_error"]) == (None, None)
    assert tools_over(running, node_id=folder) == []


def test_a_search_has_a_missing_folder_indexed_and_answers_meanwhile(running: Service, place: Path) -> None:
    assert "tool_created" not in {note["code"] for note in across(running.client, place)["notes"]}
    assert tools_over(running, path=str(place)) == []
    answer = across(running.client, place, index_missing=True)
    assert [hit["file_name"] for hit in answer["results"]] == ["harbour.md"]
    (tool,) = tools_over(running, path=str(place))
    (made,) = (note["detail"] for note in answer["notes"] if note["code"] == "tool_created")
    assert tool in made
    assert str(place) in made
    running.wait(tool)
    answer = across(running.client, place, index_missing=True)
    assert (answer["notes"], [hit["tool_id"] for hit in answer["results"]]) == ([], [tool])


def test_searches_make_one_tool_for_each_folder_and_none_for_files(running: Service, place: Path, folder: str) -> None:
    id_path = running.get(f"{NODES}/{folder}")["id_path"]
    paths = [place, place / "harbour.md", id_path]

    with ThreadPoolExecutor(4) as senders:
        answers = list(senders.map(lambda _: across(running.client, *paths, index_missing=True), range(8)))
    made = [note["detail"] for answer in answers for note in answer["notes"] if note["code"] == "tool_created"]
    assert len(made) == 2
    # the folder of nodes is empty, so its tool never has any text
    tools = [tools_over(running, path=str(place)), tools_over(running, node_id=folder)]
    assert [len(each) for each in tools] == [1, 1]
    for (tool,) in tools:
        running.wait(tool)
    answer = across(running.client, *paths, index_missing=True)
    assert {note["code"] for note in answer["notes"]} == {"not_indexed"}


def test_a_folder_is_left_to_a_tool_above_that_still_indexes_it(
    running: Service, place: Path, provider: EmbeddingsFake
) -> None:
    word = f"w{uuid4().hex[:10]}"
    (place / "low").mkdir()
    (place / "low" / "a.md").write_text(f"The harbour of {word}.")
    hold = provider.holds.add("embeddings", word)
    tool = running.local_tool(place)
    eventually(lambda: bool(hold.arrived), 60, running.logs)
    answer = across(running.client, place / "low", index_missing=True)
    assert [note["code"] for note in answer["notes"]] == ["not_indexed"]
    hold.release()
    running.wait(tool)
    answer = across(running.client, place / "low", index_missing=True)
    assert [hit["tool_id"] for hit in answer["results"]] == [tool]
    assert tools_over(running, path=str(place / "low")) == []


def test_a_folder_that_cannot_be_indexed_is_searched_all_the_same(
    running: Service, place: Path, broken: TestClient
) -> None:
    answer = across(broken, place, index_missing=True)
    assert [note["code"] for note in answer["notes"]] == ["embedding_model_refused", "not_indexed"]
    assert str(place) in answer["notes"][0]["detail"]
    assert [hit["file_name"] for hit in answer["results"]] == ["harbour.md"]
    assert tools_over(running, path=str(place)) == []


def test_missing_folders_are_named_by_paths_alone(running: Service, folder: str) -> None:
    body = {"project_id": PROJECT, "query": "x", "tool_ids": [running.tool(node_id=folder)], "index_missing": True}
    assert "paths" in checked(running.client.post(ACROSS, json=body), 422)["detail"]


def test_a_place_that_may_not_be_read_gets_no_tool(running: Service, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    body = {"project_id": PROJECT, "query": "x", "paths": [str(outside)], "index_missing": True}
    assert checked(running.client.post(ACROSS, json=body), 422)["code"] == "no_such_files"
    assert tools_over(running, path=str(outside)) == []
