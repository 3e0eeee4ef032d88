"""Tools that reindex after edits of their nodes, or at intervals."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.test_index_life import found, write
from tests.integration.test_uploads import upload
from tests.service import PROJECT, TOOLS, Service, checked, eventually
from worker.objects.object_store import s3_client

NODES = f"/api/projects/{PROJECT}/nodes"
FOLLOWS = {"auto_reindex": True}


@pytest.fixture(autouse=True)
def calm(provider: EmbeddingsFake) -> Iterator[None]:
    yield
    provider.holds.release()


@pytest.fixture
def folder(running: Service) -> str:
    made = running.node(f"f{uuid4().hex[:8]}", "folder")
    running.node("first.md", "markdown", "# first\n\nthe firstword", parent_id=made)
    return made


@pytest.fixture
def tool(running: Service, folder: str) -> str:
    made = running.tool(node_id=folder, config=FOLLOWS)
    running.wait(made)
    return made


def runs(running: Service, tool: str) -> list[dict[str, Any]]:
    """Tasks of a tool, oldest first."""
    return list(reversed(running.get(f"{TOOLS}/{tool}/tasks")["items"]))


def settled(running: Service, tool: str) -> list[dict[str, Any]]:
    """The tasks, once none is open and no change is waiting."""
    waiting = "SELECT 1 FROM search_index_change c JOIN search_tool s ON s.index_id = c.index_id"
    waiting += " WHERE s.id = %s AND c.due_at IS NOT NULL"

    def is_settled() -> bool:
        return not running.rows(waiting, tool) and all(run["finished_at"] for run in runs(running, tool))

    eventually(is_settled, 60, running.logs)
    return runs(running, tool)


def appears(running: Service, tool: str, word: str, *paths: str) -> None:
    eventually(lambda: found(running, tool, word) == {*paths}, 30, running.logs)


def test_uploads_and_edits_are_picked_up(running: Service, folder: str, tool: str) -> None:
    (item,) = upload(running, {"sub/second.md": b"# second\n\nthe secondword"}, parent_id=folder)
    appears(running, tool, "secondword", "sub/second.md")
    third = running.node("third.md", "markdown", "# third\n\nthe thirdword", parent_id=folder)
    appears(running, tool, "thirdword", "third.md")
    checked(running.client.patch(f"{NODES}/{third}", json={"content": "# third\n\nthe fourthword"}), 200)
    appears(running, tool, "fourthword", "third.md")
    checked(running.client.patch(f"{NODES}/{third}", json={"name": "moved.md"}), 200)
    appears(running, tool, "fourthword", "moved.md")
    upload(running, {"sub/second.md": b"# second\n\nthe fifthword"}, parent_id=folder)
    appears(running, tool, "fifthword", "sub/second.md")
    assert running.client.delete(f"{NODES}/{item['file_id']}").status_code == 202
    appears(running, tool, "fifthword")
    assert {run["status"] for run in settled(running, tool)} == {"ready"}


def test_a_burst_of_fifty_uploads_costs_few_runs_and_loses_none(running: Service, folder: str, tool: str) -> None:
    def send(number: int) -> None:
        upload(running, {f"burst/{number}.md": f"# {number}\n\nthe word{number}x".encode()}, parent_id=folder)

    with ThreadPoolExecutor(4) as senders:
        list(senders.map(send, range(50)))
    eventually(lambda: running.status(tool)["total_files"] == 51, 60, running.logs)
    after = settled(running, tool)
    assert after[-1]["indexed_files"] == 51
    # the first task, one for the burst, and one more if the burst exceeds the longest wait
    assert len(after) <= 3
    for number in range(50):
        assert found(running, tool, f"word{number}x") == {f"burst/{number}.md"}


def test_edits_during_a_run_cost_one_further(
    running: Service, provider: EmbeddingsFake, folder: str, tool: str
) -> None:
    word = f"w{uuid4().hex[:10]}"
    hold = provider.holds.add("embeddings", word)
    running.node("held.md", "markdown", f"# held\n\nThis is {word}", parent_id=folder)
    eventually(lambda: bool(hold.arrived), 30, running.logs)
    for number in range(10):
        running.node(f"{number}.md", "markdown", f"# {number}\n\nlate{number}", parent_id=folder)
    # the words of the first run do not wait for the provider, so a further run may begin meanwhile
    eventually(lambda: running.status(tool)["rerun"] or len(runs(running, tool)) > 2, 30, running.logs)
    hold.release()
    after = settled(running, tool)
    assert (len(after), after[-1]["indexed_files"]) == (3, 12)
    assert found(running, tool, "late7") == {"7.md"}


def test_only_the_folders_that_hold_the_edit_are_indexed(running: Service, folder: str, tool: str) -> None:
    inner = running.node("inner", "folder", parent_id=folder)
    leaf = running.node("leaf.json", "json", {"leaf": 1}, parent_id=inner)
    settled(running, tool)
    below = running.tool(node_id=inner, config=FOLLOWS)
    single = running.tool(node_id=leaf, config=FOLLOWS)
    deaf = running.tool(node_id=folder, config={"chunk_size": 100})
    beside = running.tool(node_id=running.node("beside", "folder"), config=FOLLOWS)
    tools = (tool, below, single, deaf, beside)
    for each in tools:
        running.wait(each)
    before = [len(runs(running, each)) for each in tools]
    checked(running.client.patch(f"{NODES}/{leaf}", json={"content": {"leaf": "papaya"}}), 200)
    for each in (tool, below, single):
        eventually(lambda each=each: found(running, each, "papaya") != set(), 30, running.logs)  # type: ignore[misc] # mypy infers no default's type
    after = [len(settled(running, each)) for each in tools]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 1, 0, 0]


def test_a_tool_may_begin_and_end_to_follow(running: Service, folder: str) -> None:
    tool = running.tool(node_id=folder)
    running.wait(tool)
    assert running.get(f"{TOOLS}/{tool}")["config"]["auto_reindex"] is False
    running.node("second.md", "markdown", "the secondword", parent_id=folder)
    index = running.get(f"{TOOLS}/{tool}")["index"]
    shown = checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": FOLLOWS}), 202)
    # the setting belongs to the tool: the index stays as it is
    assert (shown["index"], shown["config"]["auto_reindex"], shown["updating"]) == (index, True, None)
    appears(running, tool, "secondword", "second.md")
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"auto_reindex": False}}), 202)
    before = len(settled(running, tool))
    running.node("third.md", "markdown", "the thirdword", parent_id=folder)
    assert running.rows("SELECT 1 FROM search_index_change WHERE due_at IS NOT NULL") == []
    assert len(runs(running, tool)) == before


def test_cancel_starts_nothing_for_what_had_changed(running: Service, folder: str, tool: str) -> None:
    running.node("second.md", "markdown", "the secondword", parent_id=folder)
    running.post(f"{TOOLS}/{tool}/cancel", None)
    assert len(settled(running, tool)) == 1


def test_a_folder_that_is_gone_says_so_and_comes_back(running: Service, folder: str, tool: str) -> None:
    assert running.client.delete(f"{NODES}/{folder}").status_code == 202
    eventually(lambda: running.status(tool)["error_code"] == "folder_gone", 30, running.logs)
    status = running.status(tool)
    assert (status["status"], folder in status["error"]) == ("error", True)
    assert running.get(f"{TOOLS}/{tool}")["task"] == "error"
    running.node("back", "folder", id=folder)
    running.node("again.md", "markdown", "the firstword again", parent_id=folder)
    appears(running, tool, "firstword", "again.md")
    assert (running.wait(tool)["error_code"], settled(running, tool)[-1]["error"]) == (None, None)


def test_a_schedule_indexes_again_and_again(running: Service, root: Path) -> None:
    folder = write(root / uuid4().hex, one="# one\n\nthe oneword")
    tool = running.local_tool(folder, config={"every": "10s"})
    assert running.get(f"{TOOLS}/{tool}")["config"]["every"] == 10
    running.wait(tool)
    for word in ("twoword", "threeword"):
        write(folder, more=f"# more\n\nthe {word}")
        due = running.rows("SELECT next_run_at > now() FROM search_tool WHERE id = %s", tool)
        assert due == [(True,)]
        # longer than any test waits
        running.rows("UPDATE search_tool SET next_run_at = now() WHERE id = %s RETURNING 1", tool)
        appears(running, tool, word, "more.md")
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"every": None}}), 202)
    assert running.rows("SELECT next_run_at FROM search_tool WHERE id = %s", tool) == [(None,)]


def test_a_schedule_follows_a_prefix_of_a_bucket(running: Service) -> None:
    client = s3_client(running.env["S3_ENDPOINT_URL"])
    bucket = f"b{uuid4().hex}"
    client.create_bucket(Bucket=bucket)

    def put(**words: str) -> None:
        for name, word in words.items():
            client.put_object(Bucket=bucket, Key=f"docs/{name}.md", Body=f"# {name}\n\nthe {word}".encode())

    put(one="oneword", two="twoword")
    tool = running.tool(source={"kind": "s3", "bucket": bucket, "prefix": "docs"}, config={"every": "1h"})
    running.wait(tool)
    put(two="changedword", three="threeword")
    client.delete_object(Bucket=bucket, Key="docs/one.md")
    assert running.rows("SELECT next_run_at > now() FROM search_tool WHERE id = %s", tool) == [(True,)]
    # longer than any test waits
    running.rows("UPDATE search_tool SET next_run_at = now() WHERE id = %s RETURNING 1", tool)
    appears(running, tool, "threeword", "three.md")
    appears(running, tool, "changedword", "two.md")
    assert found(running, tool, "oneword") == found(running, tool, "twoword") == set()
    (_, second) = settled(running, tool)
    assert (second["indexed_files"], second["embedded_chunks"], second["removed_files"]) == (2, 2, 1)
    assert running.rows("SELECT next_run_at > now() FROM search_tool WHERE id = %s", tool) == [(True,)]
    client.delete_object(Bucket=bucket, Key="docs/two.md")
    client.delete_object(Bucket=bucket, Key="docs/three.md")
    client.delete_bucket(Bucket=bucket)
    running.rows("UPDATE search_tool SET next_run_at = now() WHERE id = %s RETURNING 1", tool)
    eventually(lambda: running.status(tool)["error_code"] == "folder_gone", 30, running.logs)
    # what was searchable stays searchable
    assert found(running, tool, "changedword") == {"two.md"}


@pytest.mark.parametrize(
    ("source", "config"),
    [
        ("local", {"auto_reindex": True}),
        ("s3", {"auto_reindex": True}),
        ("s3", {"watch": True}),
        ("local", {"every": 3}),
        ("local", {"every": "15 minutes"}),
        ("local", {"every": "9" * 5000 + "s"}),
        ("local", {"every": "-1h"}),
    ],
)
def test_what_cannot_be_followed_is_refused(
    running: Service, root: Path, source: str, config: dict[str, object]
) -> None:
    place = {"kind": "local", "path": str(root)} if source == "local" else {"kind": "s3", "bucket": "docs"}
    answer = running.client.post(TOOLS, json={"project_id": PROJECT, "source": place, "config": config})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
