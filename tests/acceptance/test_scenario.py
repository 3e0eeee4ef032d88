"""The scenario of the README: three files, four questions, every mode, both vector stores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.service import PROJECT, NewService, Service, another_api, service
from tests.unit.api.http.test_responses import CONTRACT
from worker.objects.object_store import s3_client
from worker.settings import LOCAL_MODEL

README = """# Overview

This project is a small demonstration. It shows the purpose of the service and gives an overview of its parts.

# Features

- Indexes folders in the background
- Reports progress for every file
"""
NOTES = "# Notes\n\nSemantic search compares vectors that embedding models make of text.\n"
DATA = {
    "config": {
        "auth": {"type": "JWT", "login_url": "/login", "token_ttl_seconds": 3600, "authentication": "required"},
        "database": {"engine": "PostgreSQL", "host": "db.internal", "port": 5432, "max_connections": 20},
    }
}
QUESTIONS = [
    ("authentication login JWT", "data.json", "/config/auth"),
    ("semantic search embedding model", "notes.md", None),
    ("project overview features", "readme.md", None),
    ("PostgreSQL database connection", "data.json", "/config/database"),
]
STORES = [("lancedb", "store"), ("lancedb", "postgres"), ("turbopuffer", "postgres"), ("turbopuffer", "store")]


@pytest.fixture(scope="module")
def objects(s3: dict[str, str]) -> dict[str, str]:
    """A bucket behind S3's own protocol."""
    s3_client(s3["S3_ENDPOINT_URL"]).create_bucket(Bucket="contents")
    return {**s3, "S3_BUCKET": "contents"}


@pytest.fixture(scope="module")
def both(new_service: NewService, objects: dict[str, str]) -> Iterator[Service]:
    """A service that reaches both stores."""
    with FakeTurbopuffer() as fake:
        env = {**objects, **fake.env, "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL}
        with new_service(partial(service, bulk=1), **env) as started:
            yield started


@pytest.fixture(scope="module", params=STORES, ids=["-".join(pair) for pair in STORES])
def running(request: pytest.FixtureRequest, both: Service) -> Iterator[Service]:
    """An API whose new indexes are in one of them; workers do as an index says."""
    store, keyword_index = request.param
    with another_api(both, VECTOR_STORE=store, KEYWORD_INDEX=keyword_index) as started:
        yield started
        started.client.delete(f"/api/projects/{PROJECT}")


@pytest.fixture(scope="module")
def tool(running: Service) -> str:
    """The tool of the scenario, indexed."""
    running.node("folder-001", "folder", id="folder-001")
    running.node("readme.md", "markdown", README, id="file-readme", parent_id="folder-001")
    running.node("data.json", "json", DATA, id="file-data", parent_id="folder-001")
    running.node("notes.md", "markdown", NOTES, id="file-notes", parent_id="folder-001")
    made = running.tool(node_id="folder-001")
    running.wait(made)
    return made


def test_status_tells_files_and_chunks(running: Service, tool: str) -> None:
    status = running.status(tool)
    assert (status["total_files"], status["indexed_files"], status["total_chunks"]) == (3, 3, 5)
    assert (status["progress"], status["folder_node_id"], status["error"]) == (1, "folder-001", None)
    assert status["embedded_chunks"] == 5
    assert status["tokens"] > 0
    chunks = {file["file_path"]: (file["status"], file["chunks"]) for file in running.files(tool)}
    assert chunks == {"data.json": ("indexed", 2), "notes.md": ("indexed", 1), "readme.md": ("indexed", 2)}


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize(("question", "path", "pointer"), QUESTIONS)
def test_each_question_finds_its_chunk_first(
    running: Service, tool: str, mode: str, question: str, path: str, pointer: str | None
) -> None:
    first = running.query(tool, question, mode=mode)[0]
    assert (first["file_path"], first["json_pointer"]) == (path, pointer)


#: What the first of the stores answered.
ANSWERS: dict[str, list[tuple[str, str | None]]] = {}


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_every_store_finds_the_same_in_the_same_order(running: Service, tool: str, mode: str) -> None:
    for question, _, _ in QUESTIONS:
        found = [(hit["file_path"], hit["json_pointer"]) for hit in running.query(tool, question, mode=mode)]
        assert found == ANSWERS.setdefault(f"{mode}: {question}", found)


def test_an_answer_has_every_field_of_the_contract(running: Service, tool: str) -> None:
    answer = running.post(f"/api/tools/search/{tool}/query", {"query": "authentication login JWT", "top_k": 1}, 200)
    assert answer["coverage"] == {"indexed_files": 3, "total_files": 3, "stale_files": None, "vector_share": 1.0}
    (hit,) = answer["results"]
    expected = {"file_node_id": "file-data", "file_id_path": "/folder-001/file-data", "file_name": "data.json"}
    assert expected.items() <= hit.items()
    assert hit.keys() == CONTRACT
    assert (hit["file_type"], hit["total_chunks"], hit["scope"], hit["stale"]) == ("json", 2, "config", False)
    assert 0 < hit["score"] <= 1
    assert hit["chunk_text"].startswith('"auth": {')
    text = running.get(f"/api/tools/search/{tool}/files/{hit['file_id']}")["text"]
    assert text[hit["start_char"] : hit["end_char"]] == hit["chunk_text"]
    assert text.split("\n")[hit["start_line"] - 1].strip().startswith('"auth"')


def test_a_single_json_node_is_a_target_too(running: Service, tool: str) -> None:
    single = running.tool(node_id="file-data")
    status = running.wait(single)
    assert (status["folder_node_id"], status["total_files"], status["total_chunks"]) == (None, 1, 2)
    assert running.query(single, "PostgreSQL database connection")[0]["json_pointer"] == "/config/database"
    narrowed = running.tool(node_id="file-data", json_pointer="/config/auth")
    assert running.wait(narrowed)["total_chunks"] == 1
    assert running.query(narrowed, "PostgreSQL")[0]["json_pointer"] == "/config/auth"


def test_filters_narrow_every_mode(running: Service, tool: str) -> None:
    for mode in ("hybrid", "vector", "keyword"):
        hits = running.query(tool, "project overview", mode=mode, filters={"path": "*.md"})
        assert {hit["file_path"] for hit in hits} <= {"notes.md", "readme.md"}
        assert running.query(tool, "host port", mode=mode, filters={"json_pointer": "/config/database"})
        refused = running.client.post(
            f"/api/tools/search/{tool}/query", json={"query": "x", "mode": mode, "filters": {"types": ["pdf"]}}
        )
        assert (refused.status_code, refused.json()["code"]) == (422, "no_such_files")
