"""Answers that say or wait for what they lack, work for callers who left, and short-lived caches of a process."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from api.http.disconnect import CallerLeft, Disconnect
from api.http.sight import seen
from api.search.query.refresh import refresh
from schemas.content.acl import EVERYTHING
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.hold import Hold
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.test_index_life import write
from tests.service import TOOLS, Service, checked, eventually
from worker.objects.object_store import s3_client
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import tools


@pytest.fixture
def folder(root: Path) -> Path:
    return write(root / uuid4().hex, one="The first text.", two="The second text.", three="The third text.")


def tool_over(running: Service, folder: Path, **config: Any) -> str:
    tool = running.local_tool(folder, config=config)
    running.wait(tool)
    return tool


def ask(running: Service, tool: str, refresh: str, query: str = "text") -> dict[str, Any]:
    return running.post(f"{TOOLS}/{tool}/query", {"query": query, "mode": "keyword", "refresh": refresh}, 200)


def stale(answer: dict[str, Any]) -> tuple[int | None, list[str]]:
    return answer["coverage"]["stale_files"], [note["code"] for note in answer["notes"]]


def paths(answer: dict[str, Any]) -> set[str]:
    return {hit["file_path"] for hit in answer["results"]}


def tasks(running: Service, tool: str) -> int:
    return len(running.get(f"{TOOLS}/{tool}/tasks")["items"])


def change(folder: Path) -> None:
    """Change one file, add one, and remove one."""
    (folder / "one.md").write_text("The first text was changed.")
    (folder / "four.md").write_text("The fourth text.")
    (folder / "two.md").unlink()


def at_work(running: Service, folder: Path, provider: EmbeddingsFake) -> tuple[str, Hold]:
    """A tool over the folder that indexes an edited file as long as its provider is held.

    Its old chunks have vectors, so its new words wait for theirs.
    """
    tool = tool_over(running, folder)
    word = uuid4().hex
    (folder / "one.md").write_text(f"The text of {word}.")
    hold = provider.holds.add("embeddings", word)
    ask(running, tool, "if_stale")
    eventually(lambda: bool(hold.arrived), 30, running.logs)
    return tool, hold


def test_nothing_is_looked_at_unless_asked(running: Service, folder: Path) -> None:
    tool = tool_over(running, folder)
    change(folder)
    assert stale(ask(running, tool, "none")) == (None, [])
    assert tasks(running, tool) == 1


def test_what_did_not_change_is_fresh_however_young_it_is(running: Service, folder: Path) -> None:
    (folder / "young.md").write_text("The youngest text.")
    tool = tool_over(running, folder)
    assert stale(ask(running, tool, "if_stale")) == (0, [])
    assert stale(ask(running, tool, "wait")) == (0, [])
    assert tasks(running, tool) == 1


def test_stale_files_are_counted_and_taken_up(running: Service, folder: Path) -> None:
    tool = tool_over(running, folder)
    change(folder)
    first = ask(running, tool, "if_stale")
    assert stale(first) == (3, ["reindexing"])
    running.wait(tool)
    after = ask(running, tool, "if_stale")
    assert stale(after) == (0, [])
    assert paths(after) == {"one.md", "three.md", "four.md"}
    assert tasks(running, tool) == 2


def test_waiting_gives_the_new_state(running: Service, folder: Path) -> None:
    tool = tool_over(running, folder)
    change(folder)
    answer = ask(running, tool, "wait", "changed fourth")
    assert stale(answer) == (0, [])
    assert paths(answer) == {"one.md", "four.md"}


def test_what_is_at_work_already_is_stale_and_starts_nothing_more(
    running: Service, folder: Path, provider: EmbeddingsFake
) -> None:
    tool, hold = at_work(running, folder, provider)
    assert stale(ask(running, tool, "if_stale")) == (1, ["reindexing"])
    hold.release()
    running.wait(tool)
    assert tasks(running, tool) == 2


def test_other_types_and_what_rules_leave_out_are_not_missing(running: Service, folder: Path) -> None:
    (folder / ".gitignore").write_text("left-out/")
    tool = tool_over(running, folder, types=["markdown"])
    (folder / "left-out").mkdir()
    (folder / "left-out" / "five.md").write_text("A text that is left out.")
    (folder / "six.csv").write_text("a,b\n")
    assert stale(ask(running, tool, "if_stale")) == (0, [])
    (folder / "seven.md").write_text("The seventh text.")
    assert stale(ask(running, tool, "if_stale")) == (1, ["reindexing"])


@pytest.mark.parametrize(("types", "missing"), [(["code"], 1), (["text"], 1), ([".PY"], 1), (["markdown"], 0)])
def test_types_mean_the_same_for_what_is_not_listed_yet(
    running: Service, folder: Path, types: list[str], missing: int
) -> None:
    tool = tool_over(running, folder, types=types)
    (folder / "a.py").write_text("walrus = 1\n")
    (folder / "README").write_text("A walrus.\n")
    found = checked(running.client.post(f"{TOOLS}/{tool}/grep", json={"pattern": "walrus"}), 200)["hits"]
    assert (len(found), stale(ask(running, tool, "if_stale"))[0]) == (missing, missing)


def test_removals_that_are_held_are_said_and_not_tried_again(running: Service, root: Path) -> None:
    folder = write(root / uuid4().hex, **{f"f{number}": f"The text {number}." for number in range(25)})
    # was never found, so that its removal waits for nothing
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 no more")
    tool = tool_over(running, folder)
    (folder / "broken.pdf").unlink()
    for number in range(24):
        (folder / f"f{number}.md").unlink()
    assert stale(ask(running, tool, "wait")) == (24, ["removals_held"])
    assert stale(ask(running, tool, "if_stale")) == (24, ["removals_held"])
    assert tasks(running, tool) == 2


def test_a_folder_that_is_gone_still_answers(running: Service, folder: Path) -> None:
    tool = tool_over(running, folder)
    shutil.rmtree(folder)
    for how in ("if_stale", "wait"):
        answer = ask(running, tool, how)
        assert stale(answer) == (None, ["folder_gone"])
        assert paths(answer) == {"one.md", "two.md", "three.md"}


def test_nodes_are_compared_by_their_versions(running: Service) -> None:
    folder = running.node("folder", "folder")
    node = running.node("one", "markdown", "The first text.", parent_id=folder)
    tool = running.tool(node_id=folder)
    running.wait(tool)
    assert stale(ask(running, tool, "if_stale")) == (0, [])
    running.client.patch(f"/api/projects/project-1/nodes/{node}", json={"content": "The newer text."})
    running.node("two", "markdown", "The second text.", parent_id=folder)
    assert stale(ask(running, tool, "if_stale")) == (2, ["reindexing"])
    answer = ask(running, tool, "wait", "newer second")
    assert stale(answer) == (0, [])
    assert len(answer["results"]) == 2


class Bucket:
    """A separate bucket whose objects below `docs` are a folder, while others are not."""

    def __init__(self, running: Service) -> None:
        self.name = f"b{uuid4().hex}"
        self._client = s3_client(running.env["S3_ENDPOINT_URL"])
        self._client.create_bucket(Bucket=self.name)

    def put(self, **texts: str) -> None:
        for name, text in texts.items():
            self._client.put_object(Bucket=self.name, Key=f"docs/{name}.md", Body=text.encode())

    def delete(self, name: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=f"docs/{name}.md")

    def close(self) -> None:
        for item in self._client.list_objects_v2(Bucket=self.name).get("Contents", []):
            self._client.delete_object(Bucket=self.name, Key=item["Key"])
        self._client.delete_bucket(Bucket=self.name)


@pytest.fixture
def bucket(running: Service) -> Bucket:
    made = Bucket(running)
    made.put(one="The first text.", two="The second text.", three="The third text.")
    return made


def tool_over_bucket(running: Service, bucket: Bucket) -> str:
    return running.tool(source={"kind": "s3", "bucket": bucket.name, "prefix": "docs"})


def test_a_bucket_is_compared_by_its_listing_and_waited_for(running: Service, bucket: Bucket) -> None:
    tool = tool_over_bucket(running, bucket)
    running.wait(tool)
    assert stale(ask(running, tool, "if_stale")) == (0, [])
    bucket.put(one="The first text was changed.", four="The fourth text.")
    bucket.delete("two")
    assert stale(ask(running, tool, "if_stale")) == (3, ["reindexing"])
    running.wait(tool)
    assert paths(ask(running, tool, "none")) == {"one.md", "three.md", "four.md"}
    bucket.put(three="The third text was changed.")
    answer = ask(running, tool, "wait", "third changed")
    assert stale(answer) == (0, [])
    assert "The third text was changed." in {hit["chunk_text"] for hit in answer["results"]}
    assert tasks(running, tool) == 3
    bucket.close()
    for how in ("if_stale", "wait"):
        answer = ask(running, tool, how)
        assert stale(answer) == (None, ["folder_gone"])
        assert paths(answer) == {"one.md", "three.md", "four.md"}


def grep(running: Service, tool: str, pattern: str, **more: Any) -> tuple[list[tuple[str, int]], list[str]]:
    answer = running.post(f"{TOOLS}/{tool}/grep", {"pattern": pattern, **more}, 200)
    return [(hit["file_path"], hit["line"]) for hit in answer["hits"]], [note["code"] for note in answer["notes"]]


def test_a_bucket_is_grepped_as_it_was_listed_and_that_is_said(
    running: Service, bucket: Bucket, provider: EmbeddingsFake
) -> None:
    word = uuid4().hex
    bucket.put(held=f"Not indexed\nyet: {word}")
    hold = provider.holds.add("embeddings", word)
    tool = tool_over_bucket(running, bucket)
    eventually(lambda: bool(hold.arrived) and not running.status(tool)["listing"], 30, running.logs)
    assert grep(running, tool, word) == ([("held.md", 2)], ["as_listed"])
    assert grep(running, tool, word, path="one.md")[0] == []
    assert grep(running, tool, word, glob="!held.md")[0] == []
    hold.release()
    running.wait(tool)
    assert grep(running, tool, "TEXT|" + word, regex=True) == (
        [("held.md", 2), ("one.md", 1), ("three.md", 1), ("two.md", 1)],
        ["as_listed"],
    )
    bucket.put(one="The first text was changed.", four="The fourth text.")
    bucket.delete("two")
    assert grep(running, tool, "changed|fourth|second", regex=True) == ([("two.md", 1)], ["as_listed"])


def test_text_that_is_older_than_its_file_is_told_of(
    running: Service, bucket: Bucket, provider: EmbeddingsFake
) -> None:
    folder = running.node("folder", "folder")
    node = running.node("one.md", "markdown", "The first text.", parent_id=folder)
    over_nodes, over_bucket = running.tool(node_id=folder), tool_over_bucket(running, bucket)
    running.wait(over_nodes)
    running.wait(over_bucket)
    word = uuid4().hex
    running.client.patch(f"/api/projects/project-1/nodes/{node}", json={"content": f"The newer {word}."})
    assert grep(running, over_nodes, "first") == ([("one.md", 1)], ["outdated"])
    assert grep(running, over_nodes, "first", path="one.md") == ([("one.md", 1)], ["outdated"])
    bucket.put(one=f"The newer {word}.")
    hold = provider.holds.add("embeddings", word)
    assert stale(ask(running, over_bucket, "if_stale")) == (1, ["reindexing"])
    eventually(lambda: bool(hold.arrived) and not running.status(over_bucket)["listing"], 30, running.logs)
    assert grep(running, over_bucket, "first") == ([("one.md", 1)], ["as_listed", "outdated"])


def test_waiting_ends_with_the_task_s_failure(running: Service, folder: Path, provider: EmbeddingsFake) -> None:
    tool = tool_over(running, folder)
    word = uuid4().hex
    # its old chunks have vectors, so its new words wait for theirs
    (folder / "one.md").write_text(f"The text of {word}.")
    hold = provider.holds.add("embeddings", word)
    with ThreadPoolExecutor(1) as asking:
        waiting = asking.submit(ask, running, tool, "wait")
        eventually(lambda: bool(hold.arrived) and not running.status(tool)["listing"], 30, running.logs)
        (folder / "one.md").unlink()
        provider.fail_next(401)
        hold.release()
        assert stale(waiting.result()) == (1, ["reindex_failed"])


def test_waiting_has_an_end_and_is_for_nobody_who_left(
    running: Service, folder: Path, provider: EmbeddingsFake, root: Path
) -> None:
    tool, _ = at_work(running, folder, provider)
    resources = Resources(
        Settings(auth="off", database_url=running.database_url, local_source_roots=[root], search_seconds=0.2)
    )
    with resources.pool:
        index = tools.index_of_tool(resources.pool, UUID(tool))
        assert index is not None
        found, notes = refresh(resources, UUID(tool), seen(index, EVERYTHING), "wait", disconnect=Disconnect())
        assert (found, [note.code for note in notes]) == (1, ["still_indexing"])
        gone = Disconnect()
        gone.event.set()
        with pytest.raises(CallerLeft):
            refresh(resources, UUID(tool), seen(index, EVERYTHING), "wait", disconnect=gone)


def leave(running: Service, tool: str, body: dict[str, Any]) -> socket.socket:
    """Send a query, and return the connection on which the answer would arrive."""
    connection = socket.create_connection(("127.0.0.1", int(running.env["API_PORT"])))
    content = orjson.dumps(body)
    head = f"POST {TOOLS}/{tool}/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


def left(running: Service) -> bool:
    """Whether a query ended because its caller left."""
    return 'route="/api/tools/search/{tool_id}/query",status="499"' in running.client.get("/metrics").text


def test_no_further_step_is_begun_for_who_left(
    running: Service, folder: Path, provider: EmbeddingsFake, store: FakeTurbopuffer
) -> None:
    tool = tool_over(running, folder)
    hold = provider.holds.add("embeddings", "nobody waits")
    connection = leave(running, tool, {"query": "nobody waits", "mode": "vector"})
    eventually(lambda: bool(hold.arrived), 30, running.logs)
    asked = sum(call.legs for call in store.audit)
    connection.close()
    for _ in range(3):  # by the time of these answers the API has seen the end of that connection
        running.client.get("/healthz")
    hold.release()
    eventually(lambda: left(running), 30, running.logs)
    assert sum(call.legs for call in store.audit) == asked


def test_two_queries_on_one_connection_are_both_answered(running: Service, folder: Path) -> None:
    tool = tool_over(running, folder)
    with leave(running, tool, {"query": "first", "mode": "keyword"}) as connection:
        content = orjson.dumps({"query": "second", "mode": "keyword"})
        head = f"POST {TOOLS}/{tool}/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += "Connection: close\r\n"
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        connection.settimeout(30)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b'"query":"first"') < received.index(b'"query":"second"')


def test_a_deleted_tool_is_not_known_any_more(running: Service, folder: Path) -> None:
    tool = tool_over(running, folder)
    ask(running, tool, "none")
    running.client.delete(f"{TOOLS}/{tool}")
    assert running.client.post(f"{TOOLS}/{tool}/query", json={"query": "text"}).status_code == 404


@contextmanager
def down(store: FakeTurbopuffer) -> Iterator[None]:
    store.fail_next(503, count=1000)
    try:
        yield
    finally:
        store.faults.clear()


@pytest.mark.parametrize(
    "more", [{}, {"mode": "keyword"}, {"group_by_file": True}], ids=["hybrid", "keyword", "grouped"]
)
def test_lines_answer_while_the_store_is_down(
    running: Service, store: FakeTurbopuffer, folder: Path, more: dict[str, Any]
) -> None:
    tool = tool_over(running, folder)
    with down(store):
        answer = running.post(f"{TOOLS}/{tool}/query", {"query": "second", **more}, 200)
    assert (paths(answer), [note["code"] for note in answer["notes"]]) == ({"two.md"}, ["keywords_only"])
    assert running.post(f"{TOOLS}/{tool}/query", {"query": "second", **more}, 200)["notes"] == []


@pytest.mark.parametrize("more", [{"mode": "vector"}, {"filters": {"types": ["markdown"]}}], ids=["vector", "filters"])
def test_what_only_the_store_can_tell_is_refused_while_it_is_down(
    running: Service, store: FakeTurbopuffer, folder: Path, more: dict[str, Any]
) -> None:
    tool = tool_over(running, folder)
    with down(store):
        answer = running.post(f"{TOOLS}/{tool}/query", {"query": "second", **more}, 503)
    assert answer["code"] == "store_unavailable"
