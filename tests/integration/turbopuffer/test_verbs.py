"""Reindex, cancel, retry, delete, edits during a run, and the status as events; with real processes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from api.stack import programs
from api.stack.processes import free_port
from api.stack.processes import running as process
from schemas.content.source import NodesSource
from schemas.tool import IndexSettings, ToolConfig
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.fakes.turbopuffer_namespace import Document
from tests.integration.test_index_life import chunks, found, write
from tests.service import PROJECT, TOOLS, Service, eventually
from worker.state.index import statuses, tool_actions, tools
from worker.state.pool import open_pool
from worker.tokens.keywords import VERSION

NODES = f"/api/projects/{PROJECT}/nodes"
#: Seconds after a cancel in which workers may still begin a request.
NOTICED = 2.0


@pytest.fixture
def word() -> str:
    """A word that no other test uses: embedded text is never paid for again."""
    return f"w{uuid4().hex[:12]}"


def files_of(word: str, *names: str) -> dict[str, str]:
    return {name: f"# {name}\n\nThis is {name} about {word} and nothing else.\n" for name in names}


def ask(running: Service, tool: str, verb: str, body: object = None) -> dict[str, Any]:
    return running.post(f"{TOOLS}/{tool}/{verb}", body)


def runs(running: Service, tool: str) -> list[dict[str, Any]]:
    """Tasks of a tool, oldest first."""
    return list(reversed(running.get(f"{TOOLS}/{tool}/tasks")["items"]))


def settled(running: Service, tool: str, count: int) -> list[dict[str, Any]]:
    """The tasks, once there are this many and none is open."""
    eventually(
        lambda: len(r := runs(running, tool)) >= count and all(run["finished_at"] for run in r), 60, running.logs
    )
    return runs(running, tool)


def test_reindex_takes_up_what_changed(running: Service, root: Path, word: str) -> None:
    folder = write(root / word, **files_of(word, "apples", "birds"))
    tool = running.local_tool(folder)
    first = running.wait(tool)
    write(folder, **files_of(word, "cars"))
    asked = ask(running, tool, "reindex")
    assert (asked["status"], asked["kind"], asked["rerun"]) == ("pending", "reindex", False)
    # errors in the description of the index come before any lookup
    assert (asked["indexed_files"], asked["total_chunks"]) == (first["indexed_files"], first["total_chunks"])
    status = running.wait(tool)
    assert (status["task_id"], status["indexed_files"], status["embedded_chunks"]) == (asked["task_id"], 3, 1)
    assert found(running, tool, "cars") == {"cars.md"}


def test_reindex_during_a_run_is_followed_by_exactly_one_further_task(
    running: Service, provider: EmbeddingsFake, root: Path, word: str
) -> None:
    folder = write(root / word, **files_of(word, "apples", "birds"))
    hold = provider.holds.add("embeddings", word)
    tool = running.local_tool(folder)
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    task = running.status(tool)["task_id"]
    for body in (None, {"full": True}, {"allow_removals": True}):
        answer = ask(running, tool, "reindex", body)
        assert (answer["task_id"], answer["rerun"]) == (task, True)
    write(folder, **files_of(word, "cars"))
    hold.release()
    first, second = settled(running, tool, 2)
    assert (first["task_id"], first["status"], second["status"], second["rerun"]) == (task, "ready", "ready", False)
    options = running.rows('SELECT "full", allow_removals FROM search_index_task WHERE id = %s', second["task_id"])
    assert options == [(True, True)]
    assert (second["indexed_files"], second["embedded_chunks"]) == (3, 1)


def test_a_task_that_fails_is_followed_too(running: Service, provider: EmbeddingsFake, root: Path, word: str) -> None:
    hold = provider.holds.add("embeddings", word)
    tool = running.local_tool(write(root / word, **files_of(word, "apples")))
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    ask(running, tool, "reindex")
    provider.fail_next(401)
    hold.release()
    first, second = settled(running, tool, 2)
    assert (first["status"], second["status"], second["indexed_files"]) == ("error", "ready", 1)


def rows(store: FakeTurbopuffer, ids: list[tuple[UUID]]) -> list[Document]:
    return [row for space in store.namespaces.values() for id_, row in space.rows.items() if (UUID(id_),) in ids]


@pytest.mark.parametrize("full", [True, False], ids=["full", "of another version"])
def test_a_reindex_that_reads_everything_pays_for_nothing(
    running: Service, provider: EmbeddingsFake, store: FakeTurbopuffer, root: Path, word: str, full: bool
) -> None:
    tool = running.local_tool(write(root / word, **files_of(word, "apples", "birds")))
    running.wait(tool)
    live = "SELECT c.id FROM chunk c JOIN search_tool s ON s.index_id = c.index_id WHERE s.id = %s ORDER BY 1"
    before = running.rows(live, tool)
    requests = len(provider.audit.requests)
    written = sum(len(call.upserts) for call in store.audit)
    # as another version of the words wrote them
    words = [row.values.pop("chunk_code") for row in rows(store, before)]
    assert len(words) == 2
    if not full:
        earlier = "UPDATE search_index_file f SET code_version = replace(code_version, %s, ''),"
        earlier += " live_fingerprint = replace(live_fingerprint, %s, '') FROM search_tool s"
        earlier += " WHERE s.index_id = f.index_id AND s.id = %s RETURNING 1"
        assert len(running.rows(earlier, f" {VERSION}", f" {VERSION}", tool)) == 2
    ask(running, tool, "reindex", {"full": full})
    status = running.wait(tool)
    assert (status["reused_chunks"], status["embedded_chunks"], status["indexed_files"]) == (2, 0, 2)
    assert all({"read", "parse", "chunk"} <= file["timings"].keys() for file in running.files(tool))
    assert running.rows(live, tool) == before
    assert [row.values.get("chunk_code") for row in rows(store, before)] == words
    assert (len(provider.audit.requests), sum(len(call.upserts) for call in store.audit)) == (requests, written)


def test_held_removals_are_done_when_they_are_allowed(running: Service, root: Path, word: str) -> None:
    names = [f"f{number}" for number in range(22)]
    folder = write(root / word, **files_of(word, *names))
    tool = running.local_tool(folder)
    running.wait(tool)
    for name in names[1:]:
        (folder / f"{name}.md").unlink()
    ask(running, tool, "reindex")
    assert running.wait(tool)["held_removals"] == 21
    ask(running, tool, "reindex", {"allow_removals": True})
    status = running.wait(tool)
    assert (status["held_removals"], status["removed_files"], status["total_files"]) == (0, 21, 1)
    assert found(running, tool, word) == {"f0.md"}


def index_of(running: Service, tool: str) -> str:
    return str(running.get(f"{TOOLS}/{tool}")["index"]["index_id"])


def leftovers(running: Service, tool: str) -> tuple[int, int]:
    """Claimed files, and half-written chunks."""
    index = index_of(running, tool)
    in_hands = "status = 'indexing' OR lease_owner IS NOT NULL"
    ((held,),) = running.rows(f"SELECT count(*) FROM search_index_file WHERE index_id = %s AND ({in_hands})", index)
    ((half,),) = running.rows("SELECT count(*) FROM chunk_draft WHERE index_id = %s", index)
    return held, half


def test_cancel_stops_the_work_and_keeps_what_was_done(
    running: Service, provider: EmbeddingsFake, store: FakeTurbopuffer, root: Path, word: str
) -> None:
    folder = write(root / word, **files_of(word, *(f"f{number}" for number in range(60))))
    provider.delay = 0.3
    provider.reset()
    tool = running.local_tool(folder)
    eventually(lambda: len(provider.audit.requests) > 2, 30, running.logs)
    cancelled = ask(running, tool, "cancel")
    at = time.time()
    assert (cancelled["status"], cancelled["error"], cancelled["eta_seconds"]) == ("cancelled", None, None)
    assert cancelled["finished_at"] is not None
    assert ask(running, tool, "cancel") == cancelled
    eventually(lambda: time.time() > at + 2 * NOTICED, 20)
    assert max(request.at for request in provider.audit.requests) - at < NOTICED
    assert len(provider.audit.requests) < 30
    eventually(lambda: leftovers(running, tool) == (0, 0), 10, running.logs)
    assert {file["status"] for file in running.files(tool)} <= {"pending", "indexed"}
    provider.delay = 0
    ask(running, tool, "reindex")
    status = running.wait(tool)
    assert (status["indexed_files"], status["total_chunks"]) == (60, 60)
    assert leftovers(running, tool) == (0, 0)
    again = running.local_tool(folder, project="calm")
    running.wait(again)
    assert chunks(running, tool) == chunks(running, again)
    assert set(store.namespaces[status["namespace"]].rows) == {
        str(id_)
        for (id_,) in running.rows("SELECT id FROM chunk WHERE index_id = %s AND live", index_of(running, tool))
    }


def test_a_cancelled_change_leaves_the_old_text_searchable(
    running: Service, provider: EmbeddingsFake, store: FakeTurbopuffer, root: Path, word: str
) -> None:
    folder = write(root / word, **files_of(word, "apples", "birds"))
    tool = running.local_tool(folder)
    running.wait(tool)
    write(folder, apples=f"# apples\n\nNow {word} is about zebras.\n")
    hold = store.holds.add("upsert", running.status(tool)["namespace"])
    ask(running, tool, "reindex")
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    assert leftovers(running, tool) == (1, 1)
    ask(running, tool, "cancel")
    hold.release()
    eventually(lambda: leftovers(running, tool) == (0, 0), 10, running.logs)
    ((stamp, status),) = running.rows(
        "SELECT stamp, status FROM search_index_file WHERE index_id = %s AND path = 'apples.md'",
        index_of(running, tool),
    )
    assert (stamp, status) == ("", "indexed")
    assert running.rows("SELECT count(*) FROM chunk_tombstone WHERE index_id = %s", index_of(running, tool)) == [(1,)]
    assert found(running, tool, "apples") == {"apples.md"}
    assert found(running, tool, "zebras") == set()
    ask(running, tool, "retry")
    status = running.wait(tool)
    assert (status["kind"], status["embedded_chunks"] + status["reused_chunks"]) == ("retry", 1)
    assert found(running, tool, "zebras") == {"apples.md"}


def test_cancel_where_nothing_runs_changes_nothing(running: Service, root: Path, word: str) -> None:
    tool = running.local_tool(write(root / word, **files_of(word, "apples")))
    status = running.wait(tool)
    assert ask(running, tool, "cancel") == status
    assert ask(running, tool, "retry") == status


def test_retry_takes_what_failed_and_does_not_list(
    running: Service, store: FakeTurbopuffer, root: Path, word: str
) -> None:
    folder = write(root / word, apples=f"# apples {word}\n\nREFUSE-ME\n", **files_of(word, "birds"))
    tool = running.local_tool(folder)
    assert running.wait(tool)["failed_files"] == 1
    untouched = "SELECT updated_at FROM search_index_file WHERE index_id = %s AND path = 'birds.md'"
    before = running.rows(untouched, index_of(running, tool))
    write(folder, **files_of(word, "cars"))
    asked = ask(running, tool, "retry")
    assert (asked["status"], asked["kind"], asked["total_files"], asked["failed_files"]) == ("indexing", "retry", 2, 0)
    status = running.wait(tool)
    assert (status["task_id"], status["failed_files"], status["total_files"]) == (asked["task_id"], 1, 2)
    (folder / "apples.md").write_text(f"# apples {word}\n\nWelcome.\n")
    ask(running, tool, "retry")
    status = running.wait(tool)
    assert (status["failed_files"], status["indexed_files"]) == (0, 2)
    assert running.rows(untouched, index_of(running, tool)) == before


def test_retry_during_a_run_is_followed_by_a_further_task(
    running: Service, provider: EmbeddingsFake, root: Path, word: str
) -> None:
    hold = provider.holds.add("embeddings", word)
    tool = running.local_tool(write(root / word, **files_of(word, "apples")))
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    assert ask(running, tool, "retry")["rerun"] is True
    hold.release()
    assert [run["status"] for run in settled(running, tool, 2)] == ["ready", "ready"]


@pytest.fixture
def tree(running: Service, word: str) -> dict[str, str]:
    """A folder of nodes: a and b in it, z below an inner folder, and a node outside."""
    folder = running.node(word, "folder", id=word)
    inner = running.node("inner", "folder", id=f"{word}-inner", parent_id=folder)
    ids = {"folder": folder, "inner": inner, "outside": running.node("out.md", "markdown", "out", id=f"{word}-out")}
    for name, parent in (("a", folder), ("b", folder), ("z", inner)):
        text = files_of(word, name)[name]
        ids[name] = running.node(f"{name}.md", "markdown", text, id=f"{word}-{name}", parent_id=parent)
    return ids


@pytest.mark.parametrize("edit", ["content", "move", "delete", "new", "folder"])
def test_an_edit_during_a_run_is_picked_up(
    running: Service, provider: EmbeddingsFake, tree: dict[str, str], word: str, edit: str
) -> None:
    hold = provider.holds.add("embeddings", word)
    tool = running.tool(node_id=tree["folder"])
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    running.client.patch(f"{NODES}/{tree['outside']}", json={"content": "elsewhere"})
    assert running.status(tool)["rerun"] is False
    if edit == "content":
        running.client.patch(f"{NODES}/{tree['z']}", json={"content": f"{word} zebras"})
    elif edit == "move":
        running.client.patch(f"{NODES}/{tree['z']}", json={"parent_id": None})
    elif edit == "delete":
        running.client.delete(f"{NODES}/{tree['z']}")
    elif edit == "new":
        running.node("new.md", "markdown", f"{word} new", parent_id=tree["inner"])
    else:
        running.client.patch(f"{NODES}/{tree['inner']}", json={"name": "renamed"})
    assert running.status(tool)["rerun"] is True
    hold.release()
    assert [run["status"] for run in settled(running, tool, 2)] == ["ready", "ready"]
    paths = {file["file_path"] for file in running.files(tool)}
    inner = {"content": {"inner/z.md"}, "new": {"inner/z.md", "inner/new.md"}, "folder": {"renamed/z.md"}}
    assert paths == {"a.md", "b.md"} | inner.get(edit, set())
    assert found(running, tool, "zebras") == ({"inner/z.md"} if edit == "content" else set())


def test_deleting_one_of_two_tools_leaves_the_other_and_its_task(
    running: Service, provider: EmbeddingsFake, root: Path, word: str
) -> None:
    folder = write(root / word, **files_of(word, "apples", "birds"))
    hold = provider.holds.add("embeddings", word)
    first, second = running.local_tool(folder), running.local_tool(folder)
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    task = running.status(second)["task_id"]
    assert running.client.delete(f"{TOOLS}/{first}").status_code == 202
    assert running.client.get(f"{TOOLS}/{first}").status_code == 404
    hold.release()
    status = running.wait(second)
    assert (status["task_id"], status["indexed_files"]) == (task, 2)
    assert found(running, second, word) == {"apples.md", "birds.md"}


def test_a_tool_made_while_its_index_is_deleted_gets_another(
    running: Service, provider: EmbeddingsFake, store: FakeTurbopuffer, root: Path, word: str
) -> None:
    folder = write(root / word, **files_of(word, "apples", "birds"))
    hold = provider.holds.add("embeddings", word)
    old = running.local_tool(folder)
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    before = running.get(f"{TOOLS}/{old}")
    running.client.delete(f"{TOOLS}/{old}")
    new = running.local_tool(folder)
    after = running.get(f"{TOOLS}/{new}")
    assert before["index"]["index_id"] != after["index"]["index_id"]
    assert after["namespace"] == f"{before['namespace']}_{after['index']['index_id']}"
    hold.release()
    assert running.wait(new)["indexed_files"] == 2
    gone = "SELECT count(*) FROM search_index_file WHERE index_id = %s"
    eventually(lambda: running.rows(gone, before["index"]["index_id"]) == [(0,)], 20, running.logs)
    assert before["namespace"] not in store.namespaces
    assert found(running, new, word) == {"apples.md", "birds.md"}


def test_retry_lists_where_the_last_task_did_not(database_url: str) -> None:
    """Directly on the rows: a search is too short to cancel halfway."""
    with open_pool(database_url) as pool:
        settings = {
            "embedder": {"model": "m", "dimensions": 8, "max_input_tokens": 100},
            "chunks": {},
            "max_file_bytes": 1000,
        }
        source = NodesSource(node_id="nowhere")
        wanted = tools.NewIndex("walks", source, "nowhere", IndexSettings.model_validate(settings), "lancedb", "store")
        tool, task = tools.create(pool, wanted, name="", config=ToolConfig())
        assert task is not None
        tool_actions.cancel(pool, tool)
        retry = tool_actions.retry(pool, tool)
        assert retry is not None
        assert retry.listing
        status = statuses.newest_of_tool(pool, tool)
        assert status is not None
        assert (status.kind, status.status, status.listing) == ("retry", "pending", True)
        tools.delete(pool, tool)


def events(running: Service, tool: str) -> Iterator[dict[str, Any]]:
    with running.client.stream("GET", f"{TOOLS}/{tool}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def test_events_tell_the_status_until_the_task_ends(
    running: Service, provider: EmbeddingsFake, root: Path, word: str
) -> None:
    hold = provider.holds.add("embeddings", word)
    tool = running.local_tool(write(root / word, **files_of(word, "apples")))
    told = events(running, tool)
    assert next(told)["tool_id"] == tool
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    hold.release()
    rest = list(told)
    assert rest[-1]["status"] == "ready"
    assert rest[-1] == running.status(tool)
    assert list(events(running, tool)) == [rest[-1]]


def test_many_who_listen_keep_nobody_waiting(running: Service, provider: EmbeddingsFake, root: Path, word: str) -> None:
    hold = provider.holds.add("embeddings", word)
    tool = running.local_tool(write(root / word, **files_of(word, "apples")))
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    with ExitStack() as open_streams:
        # more than there are threads or connections
        for _ in range(80):
            open_streams.enter_context(running.client.stream("GET", f"{TOOLS}/{tool}/events"))
        assert running.status(tool)["status"] == "indexing"
        assert running.client.get("/readyz").status_code == 200
    hold.release()
    running.wait(tool)


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_neither_who_listens_nor_a_provider_that_hangs_keeps_the_api_from_stopping(
    running: Service, provider: EmbeddingsFake, root: Path, word: str, tmp_path: Path, number: Signals
) -> None:
    folder = write(root / word, **files_of(word, "apples"))
    tool = running.local_tool(folder)
    # a query is embedded once there is a vector
    running.wait(tool)
    hold = provider.holds.add("embeddings", word)
    write(folder, **files_of(word, "birds"))
    ask(running, tool, "reindex")
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    env = {**running.env, "API_PORT": str(free_port(19_500))}
    query = provider.holds.add("embeddings", "nobody answers")
    with ExitStack() as second:
        api = second.enter_context(process(programs.api(env), tmp_path))
        url = f"http://127.0.0.1:{env['API_PORT']}{TOOLS}/{tool}"
        second.enter_context(running.client.stream("GET", f"{url}/events"))
        asking = second.enter_context(ThreadPoolExecutor(1))
        body = {"query": "nobody answers", "mode": "vector"}
        asking.submit(httpx.post, f"{url}/query", json=body, timeout=90, trust_env=False)
        eventually(lambda: bool(query.arrived), 60, running.logs)
        api.signal(number)
        eventually(api.ended, 9)  # before it would be killed
    hold.release()
    running.wait(tool)


def test_bad_bodies_and_unknown_tools_are_refused(running: Service, root: Path, word: str) -> None:
    tool = running.local_tool(write(root / word, **files_of(word, "apples")))
    refused = running.client.post(f"{TOOLS}/{tool}/reindex", json={"fully": True})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    for verb in ("reindex", "cancel", "retry"):
        assert running.client.post(f"{TOOLS}/{uuid4()}/{verb}").status_code == 404
    assert running.client.get(f"{TOOLS}/{uuid4()}/events").status_code == 404
