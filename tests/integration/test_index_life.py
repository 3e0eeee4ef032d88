"""The life of an index: the cost of changes, and the effects of a broker or worker that dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from api.stack import programs, redis
from api.stack.processes import running as process
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import (
    PROJECT,
    TOOLS,
    NewService,
    Service,
    checked,
    environment,
    eventually,
    new_database,
    with_clock,
    with_one_worker,
)
from worker.settings import LOCAL_MODEL

NODES = f"/api/projects/{PROJECT}/nodes"
#: Older than the age at which stamps are trusted.
LONG_AGO = 1_600_000_000
SECTIONS = {
    word: f"# {word}\n\nThis section is about {word} and nothing else.\n\n" for word in ("apples", "birds", "cars")
}


def write(folder: Path, **files: str) -> Path:
    """Write text files whose stamps can be trusted."""
    folder.mkdir(exist_ok=True)
    for number, (name, text) in enumerate(files.items()):
        path = folder / f"{name}.md"
        path.write_text(text)
        os.utime(path, (LONG_AGO, LONG_AGO + number))
    return folder


def indexed(running: Service, **target: Any) -> tuple[str, dict[str, Any]]:
    """Create another tool over a target. Returns it, and the status at the end of its task."""
    made = running.tool(**target)
    return made, running.wait(made)


def local(folder: Path) -> dict[str, Any]:
    return {"source": {"kind": "local", "path": str(folder)}}


def found(running: Service, tool: str, query: str, mode: str = "keyword") -> set[str]:
    return {hit["file_path"] for hit in running.query(tool, query, mode=mode)}


def test_what_did_not_change_is_not_even_read(running: Service, root: Path) -> None:
    folder = write(root / "same", **SECTIONS)
    files = """
        SELECT f.id, f.updated_at FROM search_index_file f JOIN search_tool t USING (index_id) WHERE t.id = %s
        ORDER BY f.id
    """
    tool, first = indexed(running, **local(folder))
    before = running.rows(files, tool)
    _, second = indexed(running, **local(folder))
    assert (first["embedded_chunks"], first["reused_chunks"]) == (3, 0)
    assert (second["embedded_chunks"], second["reused_chunks"], second["tokens"]) == (0, 0, 0)
    assert (second["kind"], second["total_chunks"], second["indexed_files"]) == ("reindex", 3, 3)
    assert running.rows(files, tool) == before
    assert len(before) == len(SECTIONS)


def test_the_bytes_of_files_are_counted_as_they_are_now(running: Service, root: Path) -> None:
    folder = write(root / "bytes", **SECTIONS)
    (folder / "empty.md").touch()
    (folder / "broken.pdf").write_text("%PDF-1.7")
    _, status = indexed(running, **local(folder))
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert (status["done_bytes"], status["total_bytes"], status["failed_files"]) == (size, size, 1)
    (folder / "broken.pdf").unlink()
    write(folder, apples="# Apples\n\nOnly one is left.\n")
    _, status = indexed(running, **local(folder))
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert (status["done_bytes"], status["total_bytes"], status["removed_files"]) == (size, size, 1)


def test_a_touched_file_is_read_and_costs_nothing(running: Service, root: Path) -> None:
    folder = write(root / "touched", **SECTIONS)
    indexed(running, **local(folder))
    os.utime(folder / "birds.md")
    _, status = indexed(running, **local(folder))
    assert (status["embedded_chunks"], status["reused_chunks"], status["total_chunks"]) == (0, 1, 3)


def test_an_edit_costs_the_chunks_it_changed(running: Service, root: Path) -> None:
    folder = write(root / "edited", book="".join(SECTIONS.values()), other="# Other\n\nNot edited at all.\n")
    indexed(running, **local(folder))
    write(folder, book=SECTIONS["apples"] + "# Zebras\n\nThese have stripes.\n\n" + SECTIONS["cars"])
    tool, status = indexed(running, **local(folder))
    assert (status["embedded_chunks"], status["reused_chunks"], status["total_chunks"]) == (1, 2, 4)
    assert found(running, tool, "birds") == set()
    assert found(running, tool, "stripes") == {"book.md"}
    assert len(running.query(tool, "anything", mode="vector", top_k=100)) == 4
    (book,) = running.files(tool, q="book")
    text = running.get(f"{TOOLS}/{tool}/files/{book['file_id']}")["text"]
    assert text == (folder / "book.md").read_text()
    cars = running.query(tool, "cars", mode="keyword")[0]
    assert text[cars["start_char"] : cars["end_char"]] == cars["chunk_text"]
    assert text.split("\n")[cars["start_line"] - 1] == "# cars"


def test_a_deleted_file_leaves_search_and_may_come_back(running: Service, root: Path) -> None:
    folder = write(root / "deleted", **SECTIONS)
    indexed(running, **local(folder))
    (folder / "birds.md").unlink()
    tool, status = indexed(running, **local(folder))
    assert (status["removed_files"], status["total_files"], status["total_chunks"]) == (1, 2, 2)
    assert found(running, tool, "birds") == set()
    assert found(running, tool, "birds", "vector") == {"apples.md", "cars.md"}
    (removed,) = running.files(tool, status="removed")
    assert removed["file_path"] == "birds.md"
    assert [file["file_path"] for file in running.files(tool)] == ["apples.md", "cars.md"]
    assert "no file" in checked(running.client.get(f"{TOOLS}/{tool}/files/{removed['file_id']}"), 404)["detail"]
    write(folder, birds=SECTIONS["birds"])
    tool, status = indexed(running, **local(folder))
    assert (status["removed_files"], status["total_files"], status["embedded_chunks"]) == (0, 3, 0)
    assert found(running, tool, "birds") == {"birds.md"}


def test_most_files_gone_at_once_are_held_until_they_are_back(running: Service, root: Path) -> None:
    files = {f"f{number}": f"# File {number}\n\nnumber{number}" for number in range(24)}
    folder = write(root / "held", **files)
    indexed(running, **local(folder))
    for number in range(20):
        (folder / f"f{number}.md").unlink()
    tool, status = indexed(running, **local(folder))
    assert (status["held_removals"], status["removed_files"], status["total_chunks"]) == (20, 0, 24)
    assert "allow_removals" in status["warning"]
    assert found(running, tool, "number7") == {"f7.md"}
    for refresh in ("none", "if_stale"):
        body = {"query": "number", "top_k": 24, "refresh": refresh}
        answer = running.post(f"{TOOLS}/{tool}/query", body, 200)
        assert [note["code"] for note in answer["notes"]] == ["removals_held"]
        assert "20 files have vanished" in answer["notes"][0]["detail"]
        stale = {hit["file_path"] for hit in answer["results"] if hit["stale"]}
        assert stale == {f"f{number}.md" for number in range(20)}
        assert len(answer["results"]) == 24
    write(folder, **dict(list(files.items())[:19]))
    tool, status = indexed(running, **local(folder))
    assert (status["held_removals"], status["removed_files"], status["warning"]) == (0, 1, None)
    assert found(running, tool, "number19") == set()
    # counts may be a moment old
    body = {"query": "number", "top_k": 24}
    eventually(lambda: running.post(f"{TOOLS}/{tool}/query", body, 200)["notes"] == [], 10, running.logs)
    assert [hit for hit in running.post(f"{TOOLS}/{tool}/query", body, 200)["results"] if hit["stale"]] == []


def test_few_files_are_removed_even_if_all_are_gone(running: Service, root: Path) -> None:
    folder = write(root / "few", **SECTIONS)
    indexed(running, **local(folder))
    for name in SECTIONS:
        (folder / f"{name}.md").unlink()
    tool, status = indexed(running, **local(folder))
    assert (status["removed_files"], status["total_files"], status["total_chunks"]) == (3, 0, 0)
    assert found(running, tool, "birds", "hybrid") == set()


def test_a_root_that_is_gone_refuses_a_new_tool_and_keeps_the_index(running: Service, root: Path) -> None:
    folder = write(root / "unmounted", **SECTIONS)
    first, _ = indexed(running, **local(folder))
    folder.rename(root / "elsewhere")
    refused = running.client.post(TOOLS, json={"project_id": PROJECT, **local(folder)})
    assert (refused.status_code, refused.json()["code"]) == (422, "folder_gone")
    assert found(running, first, "birds") == {"birds.md"}


@pytest.fixture
def tree(running: Service) -> dict[str, str]:
    """Ids of a folder of nodes: a, and b below inner."""
    folder = running.node("tree", "folder")
    inner = running.node("inner", "folder", parent_id=folder)
    a = running.node("a.md", "markdown", SECTIONS["apples"], parent_id=folder)
    b = running.node("b.md", "markdown", SECTIONS["birds"], parent_id=inner)
    return {"folder": folder, "inner": inner, "a": a, "b": b}


def patch(running: Service, node: str, **body: Any) -> None:
    assert running.client.patch(f"{NODES}/{node}", json=body).status_code == 200


def test_a_rename_or_move_of_nodes_patches_places_without_embedding(running: Service, tree: dict[str, str]) -> None:
    indexed(running, node_id=tree["folder"])
    patch(running, tree["a"], name="renamed.md")
    patch(running, tree["inner"], name="moved")
    tool, status = indexed(running, node_id=tree["folder"])
    assert (status["embedded_chunks"], status["removed_files"], status["total_chunks"]) == (0, 0, 2)
    assert [file["file_path"] for file in running.files(tool)] == ["moved/b.md", "renamed.md"]
    for mode in ("hybrid", "vector", "keyword"):
        hit = running.query(tool, "renamed apples", mode=mode)[0]
        assert (hit["file_path"], hit["file_name"], hit["stale"]) == ("renamed.md", "renamed.md", False)
    assert found(running, tool, "moved") == {"moved/b.md"}
    patch(running, tree["b"], parent_id=tree["folder"])
    tool, status = indexed(running, node_id=tree["folder"])
    assert status["embedded_chunks"] == 0
    hit = running.query(tool, "birds", filters={"path": "b.md"})[0]
    assert hit["file_id_path"] == f"/{tree['folder']}/{tree['b']}"


def test_an_edited_and_a_deleted_node(running: Service, tree: dict[str, str]) -> None:
    indexed(running, node_id=tree["folder"])
    patch(running, tree["a"], content=SECTIONS["cars"])
    assert running.client.delete(f"{NODES}/{tree['inner']}").status_code == 202
    tool, status = indexed(running, node_id=tree["folder"])
    assert (status["embedded_chunks"], status["removed_files"], status["total_chunks"]) == (0, 1, 1)
    assert found(running, tool, "cars birds apples") == {"a.md"}


def test_a_file_that_becomes_bad_leaves_search_only_if_it_is_no_text_any_more(running: Service, root: Path) -> None:
    folder = root / "turned"
    folder.mkdir()
    for name in ("a.pdf", "b.txt"):
        (folder / name).write_text('{"fruit": "apples"}')
    indexed(running, **local(folder))
    (folder / "a.pdf").write_text("%PDF-1.7")
    (folder / "b.txt").write_bytes(b"\0\0")
    tool, status = indexed(running, **local(folder))
    assert (status["failed_files"], status["skipped_files"], status["status"]) == (1, 1, "ready")
    (hit,) = running.query(tool, "apples", mode="keyword")
    assert (hit["file_path"], hit["stale"]) == ("a.pdf", True)
    assert {file["file_path"]: file["stale"] for file in running.files(tool)} == {"a.pdf": True, "b.txt": False}


def test_a_broker_that_is_down_costs_nothing_but_time(
    tmp_path: Path, postgres_url: str, template_url: str, root: Path
) -> None:
    folder = write(root / "broker", **SECTIONS)
    server = redis.prepare(tmp_path, needs_password=False)
    with ExitStack() as stack:
        broker = stack.enter_context(ExitStack())
        broker.enter_context(process(server.program, tmp_path))
        url = stack.enter_context(new_database(postgres_url, template_url))
        env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root)}
        here = stack.enter_context(with_one_worker(environment(tmp_path / "home", url, server.url, **env)))
        broker.close()
        tool = here.local_tool(folder)
        assert here.status(tool)["status"] == "pending"
        with process(server.program, tmp_path):
            assert here.wait(tool)["indexed_files"] == 3
            assert found(here, tool, "birds") == {"birds.md"}


def chunks(here: Service, tool: str) -> list[tuple[Any, ...]]:
    """Every live chunk of a tool's index, without what differs from run to run."""
    return here.rows(
        """
        SELECT f.path, c.chunk_index, c.chunk_text, c.content_hash, c.start_char, c.lead, c.trail
        FROM chunk c JOIN search_index_file f ON f.id = c.file_id JOIN search_tool s ON s.index_id = c.index_id
        WHERE s.id = %s AND c.live ORDER BY 1, 2
        """,
        tool,
    )


@pytest.fixture(scope="module")
def remote(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    """A service with one worker, which sends a provider two texts in each request."""
    env = {**provider.env, "EMBEDDING_BATCH_SIZE": "2", "EMBEDDING_CONCURRENCY": "1", "LOCAL_SOURCE_ROOTS": str(root)}
    with new_service(with_one_worker, **env) as started:
        yield started


def test_a_provider_that_fails_for_a_while_is_waited_for(remote: Service, provider: EmbeddingsFake, root: Path) -> None:
    tool = remote.local_tool(write(root / "warm", **SECTIONS))
    remote.wait(tool)
    provider.fail_next(503, count=7)
    tool = remote.local_tool(write(root / "patient", a="Patience.", b="More patience.", c="Much more patience."))
    eventually(lambda: remote.status(tool)["warning"] is not None, 20, remote.logs)
    assert "Waiting" in remote.status(tool)["warning"]
    status = remote.wait(tool)
    assert (status["indexed_files"], status["warning"], status["error"]) == (3, None, None)
    assert {file["attempts"] for file in remote.files(tool)} == {1}


def test_a_key_that_ends_during_the_run_ends_the_task_with_the_reason(
    remote: Service, provider: EmbeddingsFake, root: Path
) -> None:
    provider.fail_next(401)
    folder = write(root / "ended", a="An end.", b="A bitter end.", c="Endless.")
    status = remote.wait(remote.local_tool(folder), "error")
    assert "EMBEDDING_API_KEY" in status["error"]
    again = remote.wait(remote.local_tool(root / "ended"))
    assert (again["indexed_files"], again["error"]) == (3, None)


def test_killed_workers_change_nothing_about_the_result(remote: Service, provider: EmbeddingsFake, root: Path) -> None:
    folder = write(root / "killed", **{f"f{number}": "".join(SECTIONS.values()) + f"{number}" for number in range(12)})
    calm = remote.local_tool(folder, project="calm")
    remote.wait(calm)
    provider.delay = 0.2
    provider.reset()
    killed = remote.local_tool(folder)
    eventually(lambda: len(provider.audit.requests) > 3, 30, remote.logs)
    remote.processes["worker-fast"].signal(SIGKILL)
    assert remote.status(killed)["status"] == "indexing"
    provider.delay = 0
    with process(with_clock(programs.fast_worker(remote.env), remote.home), remote.home):
        status = remote.wait(killed)
        assert (status["indexed_files"], status["failed_files"], status["error"]) == (12, 0, None)
        assert chunks(remote, killed) == chunks(remote, calm)
        assert len(remote.query(killed, "section", mode="vector", top_k=10_000)) == status["total_chunks"] == 36


def test_words_phrases_and_long_queries_find_their_files(running: Service, root: Path) -> None:
    german = "Die Häuser am Fluss werden von den Pumpen trocken gehalten, und der Keller bleibt im Winter warm."
    texts = {
        "german": german,
        "wrapped": "No free\n    connection slots remain.",
        "apart": "Slots remain; free connection",
    }
    tool, _ = indexed(running, **local(write(root / "words", **texts)))
    assert found(running, tool, "Haus einer Pumpe") == {"german.md"}
    assert found(running, tool, '"free connection slots"') == {"wrapped.md", "apart.md"}
    assert running.query(tool, '"free  connection slots"', mode="keyword")[0]["file_path"] == "wrapped.md"
    trace = "\n".join(f"at frame {number} of some call" for number in range(99)) + "\nno free connection"
    answer = running.post(f"{TOOLS}/{tool}/query", {"queries": [trace], "mode": "keyword"}, 200)
    assert [note["code"] for note in answer["notes"]] == ["query_split"]
    assert {hit["file_path"] for hit in answer["results"]} >= {"wrapped.md", "apart.md"}
    assert all(hit["matched_queries"] == [trace] for hit in answer["results"])
