"""Summary trees written by a language model, over HTTP with real workers and strict providers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis import Redis

from tests.fakes.chat import ChatFake
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.service import TOOLS, NewService, Service, checked, eventually
from worker.app import BULK, MAX_WAITING, make_app
from worker.state.index.tasks import SMALL_TASK

TREE = {"enabled": True, "cluster_method": "adjacent"}
#: Messages that occupy a process for longer than a small tree takes.
BACKLOG = 2_000


@dataclass
class Library:
    """A service whose chat model counts."""

    service: Service
    chat: ChatFake
    root: Path
    store: FakeTurbopuffer
    embeddings: EmbeddingsFake

    def folder(self, name: str, files: int = 30) -> Path:
        path = self.root / name
        path.mkdir()
        for number in range(files):
            (path / f"{number:02}.md").write_text(
                f"# {name} {number}\n\nReport {number} about {name} number {number}.\n"
            )
        return path

    def tool(self, name: str, files: int = 30, **raptor: Any) -> str:
        """A tool with an index, and then a tree that is being built."""
        tool = self.service.local_tool(self.folder(name, files))
        self.service.wait(tool)
        patch = {"config": {"raptor": {**TREE, **raptor}}}
        checked(self.service.client.patch(f"{TOOLS}/{tool}", json=patch), 202)
        return tool

    def status(self, tool: str) -> dict[str, Any]:
        return self.service.get(f"{TOOLS}/{tool}/raptor/status")

    def ended(self, tool: str, until: str = "indexed", seconds: float = 60) -> dict[str, Any]:
        status: dict[str, Any] = {}

        def has_ended() -> bool:
            status.update(self.status(tool))
            return status["indexing_status"] in {"indexed", "error", "cancelled"}

        eventually(has_ended, seconds, lambda: f"{status}\n{self.service.logs()}")
        assert status["indexing_status"] == until, f"{status}\n{self.service.logs()}"
        return status


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, new_service: NewService) -> Iterator[Library]:
    root = tmp_path_factory.mktemp("root")
    with EmbeddingsFake() as embeddings, ChatFake() as chat, FakeTurbopuffer() as store:
        env = {**embeddings.env, **chat.env, **store.env, "LOCAL_SOURCE_ROOTS": str(root)}
        with new_service(**env) as started:
            yield Library(started, chat, root, store, embeddings)


@pytest.fixture
def library(shared: Library) -> Library:
    shared.chat.reset()
    shared.embeddings.reset()
    return shared


def test_one_request_for_each_summary(library: Library) -> None:
    tool = library.tool("one")
    status = library.ended(tool)
    assert status["summary_nodes"] == status["requests"] == library.chat.requests
    assert status["tokens_in"] > status["tokens_out"] > 0
    assert status["model"] == "openai/writer"
    nodes = library.service.get(f"{TOOLS}/{tool}/raptor/nodes")["items"]
    assert all(node["text"].startswith("Summary ") for node in nodes)
    for tree in ("collapsed", "tree_traversal"):
        body = {"query": "report number 7", "tree": tree, "top_k": 10}
        found = library.service.post(f"{TOOLS}/{tool}/query", body, 200)
        assert len({hit["chunk_id"] for hit in found["results"]}) == 10
        apart = library.service.post(f"{TOOLS}/{tool}/query", {**body, "top_k": 40, "expand_to_leaves": False}, 200)
        assert {each["node_id"] for each in apart["summaries"]} <= {node["node_id"] for node in nodes}
        assert apart["summaries"]


def test_an_edit_pays_only_for_its_ancestors(library: Library) -> None:
    tool = library.tool("edited")
    status = library.ended(tool)
    paid = library.chat.requests
    (library.root / "edited" / "15.md").write_text("# edited 15\n\nSomething else is in this report now.\n")
    library.service.post(f"{TOOLS}/{tool}/reindex", {})
    library.service.wait(tool)
    eventually(lambda: library.status(tool)["requests"] < paid and library.status(tool)["stale"] == 0, 60)
    library.ended(tool)
    # an edit may move its text to the cluster beside it, in each layer
    assert 1 <= library.chat.requests - paid <= 2 * status["max_level"]
    (library.root / "edited" / "15.md").rename(library.root / "edited" / "renamed.md")
    before = library.chat.requests
    library.service.post(f"{TOOLS}/{tool}/reindex", {})
    library.service.wait(tool)
    eventually(lambda: "renamed.md" in str(library.service.get(f"{TOOLS}/{tool}/raptor/nodes")), 30)
    library.ended(tool)
    assert library.chat.requests == before


def ports_of(process: psutil.Process) -> set[int]:
    """The remote ports to which a process is connected."""
    return {
        int(connection.raddr.port) for connection in process.net_connections() if connection.status == "ESTABLISHED"
    }


def test_a_kill_pays_again_only_for_requests_in_flight(library: Library) -> None:
    hold = library.chat.holds.add("chat", "number 20")
    tool = library.tool("killed", summary_num_workers=2)
    eventually(lambda: bool(hold.arrived) and library.status(tool)["requests"] >= 2, 60, library.service.logs)
    worker = psutil.Process(library.service.processes["worker-all"].child.pid)
    for child in worker.children(recursive=True):
        if library.chat.port in ports_of(child):
            os.kill(child.pid, signal.SIGKILL)
    hold.release()
    status = library.ended(tool, seconds=90)
    assert status["summary_nodes"] <= len(library.chat.prompts) <= status["summary_nodes"] + 2
    distinct = len(set(library.chat.prompts))
    assert distinct == status["summary_nodes"]


def test_cancel_stops_requests_within_two_seconds(library: Library) -> None:
    hold = library.chat.holds.add("chat")
    tool = library.tool("cancelled", summary_num_workers=2)
    eventually(lambda: len(hold.arrived) == 2, 60, library.service.logs)
    checked(library.service.client.post(f"{TOOLS}/{tool}/raptor/cancel"), 202)
    time.sleep(2)
    hold.release()
    sent = library.chat.requests
    status = library.ended(tool, "cancelled")
    time.sleep(1)
    assert library.chat.requests == sent == 2
    assert not status["has_index"]


def test_a_tree_is_built_while_other_folders_are_indexed(library: Library) -> None:
    tool = library.service.local_tool(library.folder("pending", 12))
    library.service.wait(tool)
    # of two processes one is held, and messages of many folders wait for the other
    hold = library.embeddings.holds.add("embeddings", "number 150")
    large = library.service.local_tool(library.folder("large", SMALL_TASK + 1))
    eventually(lambda: bool(hold.arrived), 60, library.service.logs)
    task = library.service.status(large)["task_id"]
    url = library.service.env["CELERY_BROKER_URL"]
    with make_app(url) as app, Redis.from_url(url) as broker:
        for _ in range(BACKLOG):
            app.send_task("foldex.index", args=[task], queue=BULK)
        checked(library.service.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": TREE}}), 202)
        library.ended(tool)
        assert broker.llen(BULK) > MAX_WAITING
        assert library.service.status(large)["status"] == "indexing"
        broker.delete(BULK)
    hold.release()
    library.service.wait(large)


def test_a_folder_is_indexed_while_a_tree_is_built(library: Library) -> None:
    hold = library.chat.holds.add("chat")
    tool = library.tool("slow", 12)
    eventually(lambda: bool(hold.arrived), 60, library.service.logs)
    other = library.service.local_tool(library.folder("beside", SMALL_TASK + 1))
    library.service.wait(other)
    assert library.status(tool)["indexing_status"] == "indexing"
    hold.release()
    library.ended(tool)


def test_a_busy_provider_is_waited_for(library: Library) -> None:
    library.chat.fail_next(429, 6, retry_after=1)
    library.chat.fail_next(503, 2)
    status = library.ended(library.tool("busy", 12), seconds=120)
    assert status["summary_nodes"] == status["requests"]


def test_a_wrong_key_ends_the_build_and_keeps_the_last_tree(library: Library) -> None:
    tool = library.tool("keys", 12)
    before = library.ended(tool)
    library.chat.fail_next(401, 50)
    (library.root / "keys" / "03.md").write_text("# keys 3\n\nSomething else is in this report now.\n")
    library.service.post(f"{TOOLS}/{tool}/reindex", {})
    library.service.wait(tool)
    eventually(lambda: library.status(tool)["error_code"] == "llm_unauthorized", 60, library.service.logs)
    after = library.status(tool)
    assert (after["has_index"], after["summary_nodes"]) == (True, before["summary_nodes"])


def test_nonsense_ends_the_build_and_keeps_the_last_tree(library: Library) -> None:
    tool = library.tool("nonsense")
    before = library.ended(tool)
    paid = library.chat.requests
    raptor = {**TREE, "summary_num_workers": 1, "summary_prompt": "TALK-HTML {text}"}
    checked(library.service.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": raptor}}), 202)
    after = library.ended(tool, "error", 90)
    assert after["error_code"] == "llm_failed"
    assert "unreadable" in after["error"]
    assert (after["has_index"], after["summary_nodes"]) == (True, before["summary_nodes"])
    # each of three clusters is asked for twice; they are too short to be halved
    assert library.chat.requests - paid == 3 * 2


def test_a_cluster_without_a_good_answer_is_left_out_and_counted(library: Library) -> None:
    folder = library.folder("partial")
    for number, word in ((3, "TALK-LIST"), (15, "SAY-NOTHING"), (27, "TALK-ON")):
        with (folder / f"{number:02}.md").open("a") as note:
            note.write(f"\n{word}\n")
    tool = library.service.local_tool(folder, config={"raptor": TREE})
    library.service.wait(tool)
    status = library.ended(tool)
    assert status["skipped"] == {"unreadable": 1, "empty": 1, "too_long": 1}
    assert status["has_index"]


def test_a_build_beyond_its_tokens_sends_nothing(library: Library) -> None:
    tool = library.tool("dear", 30, max_tokens=500)
    status = library.ended(tool, "error")
    assert status["error_code"] == "too_many_tokens"
    assert library.chat.requests == 0
    estimate = library.service.get(f"{TOOLS}/{tool}/raptor/estimate")
    assert (estimate["leaves"], estimate["fits"], estimate["usd"]) == (30, False, None)
    assert library.chat.requests == 0


def test_tokens_for_the_first_layer_alone_are_too_few(library: Library) -> None:
    small = {"min_cluster_size": 2}
    tool = library.service.local_tool(library.folder("layers"))
    library.service.wait(tool)
    first, whole = (tokens_of(library, tool, **small, max_layers=layers) for layers in (1, 3))
    assert whole > 1.5 * first
    raptor = {**TREE, **small, "max_tokens": (first + whole) // 2}
    checked(library.service.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": raptor}}), 202)
    assert library.ended(tool, "error")["error_code"] == "too_many_tokens"
    assert library.chat.requests == 0


def tokens_of(library: Library, tool: str, **raptor: Any) -> int:
    """The tokens that a build is estimated to send and receive. Builds nothing."""
    patch = {"config": {"raptor": {**TREE, "enabled": False, **raptor}}}
    checked(library.service.client.patch(f"{TOOLS}/{tool}", json=patch), 202)
    estimate = library.service.get(f"{TOOLS}/{tool}/raptor/estimate")
    return int(estimate["tokens_in"] + estimate["tokens_out"])


def test_two_tools_share_a_tree_and_the_last_takes_it_along(library: Library) -> None:
    tool = library.tool("owned")
    built = library.ended(tool)
    paid = library.chat.requests
    second = library.service.local_tool(library.root / "owned", config={"raptor": TREE})
    library.service.wait(second)
    shown = library.ended(second)
    assert (shown["summary_nodes"], library.chat.requests) == (built["summary_nodes"], paid)
    query = "SELECT t.id, i.id, i.namespace FROM search_tool s JOIN search_index i ON i.id = s.index_id "
    query += "JOIN summary_tree t ON t.index_id = i.id WHERE s.id = %s"
    ((tree, index, namespace),) = library.service.rows(query, second)
    summaries = library.store.namespaces[f"{namespace}.tree"].rows
    assert len(summaries) == built["summary_nodes"]
    checked(library.service.client.delete(f"{TOOLS}/{tool}"), 202)
    assert library.status(second)["has_index"]
    checked(library.service.client.delete(f"{TOOLS}/{second}/raptor"), 202)
    eventually(lambda: not summaries, 60, library.service.logs)
    for table in ("tree_node", "tree_leaf", "summary_cache"):
        assert library.service.rows(f"SELECT 1 FROM {table} WHERE tree_id = %s", tree) == []
    assert library.service.rows("SELECT 1 FROM chunk WHERE index_id = %s", index)


def test_an_estimate_is_near_the_build(library: Library) -> None:
    tool = library.tool("estimated", 30)
    status = library.ended(tool)
    estimate = library.service.get(f"{TOOLS}/{tool}/raptor/estimate")
    assert status["requests"] / 2 <= estimate["requests"] <= 2 * status["requests"]
    assert status["tokens_in"] / 3 <= estimate["tokens_in"] <= 3 * status["tokens_in"]
