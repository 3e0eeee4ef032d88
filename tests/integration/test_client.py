"""The client library against the service."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from threading import Event
from typing import Any

import httpx
import pytest

from api.stack.processes import start, stop
from foldex_client import AsyncFoldex, Foldex, NotFound, Status, ToolConfig, WaitTimedOut
from foldex_client.errors import Conflict, FilterMatchesNothing, FolderGone, Invalid, ModelNotAllowed, Unauthorized
from tests import coroutines
from tests.documents import DOCS, ROOT, blocks
from tests.integration.test_keys import new_key
from tests.integration.test_pasted import ADDRESS, shows
from tests.service import PROJECT, Service, another_api, eventually

CODE = "def parse_header(line):\n    return line\n\n\ndef read(lines):\n    return parse_header(lines[0])\n"


def address(service: Service) -> str:
    return str(service.client.base_url)


@pytest.fixture(scope="module")
def client(running: Service) -> Iterator[Foldex]:
    with Foldex(address(running), trust_env=False) as opened:
        yield opened


@pytest.fixture
def folder(root: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a few notes and a file of code."""
    made: Path = root / request.node.name
    made.mkdir()
    for number in range(5):
        (made / f"note-{number}.md").write_text(f"# Note {number}\n\nThe harbour has {number} cranes.\n")
    (made / "header.py").write_text(CODE)
    return made


def test_a_tool_is_created_watched_and_asked(client: Foldex, folder: Path) -> None:
    seen: list[Status] = []
    tool = client.tools.create(
        PROJECT, path=folder, config=ToolConfig(exclude=["note-4.md"]), on_progress=seen.append, timeout=60
    )
    assert (tool.task, tool.source.path, tool.config.exclude) == ("ready", str(folder), ["note-4.md"])
    assert seen[-1].progress == 1
    assert [each.progress for each in seen] == sorted(each.progress or 0 for each in seen)
    answer = client.tools.search(tool, "cranes of the harbour", filters={"path": "*.md"}, top_k=2)
    assert [hit.file_path[:5] for hit in answer.results] == ["note-", "note-"]
    several = client.tools.search(tool.tool_id, ["cranes", "parse header"], group_by_file=True)
    assert "header.py" in {hit.file_path for hit in several.results}
    assert [hit.line for hit in client.tools.grep(tool, "parse_header", glob="*.py").hits] == [1, 6]
    hit = answer.results[0]
    assert client.tools.chunk(tool, hit.chunk_id).chunk.chunk_text == hit.chunk_text
    assert client.tools.file(tool, hit.file_id, start_line=1, end_line=1).text.startswith("# Note")
    across = client.search(PROJECT, "cranes", tools=[tool], mode="keyword")
    assert {found.tool_id for found in across.results} == {tool.tool_id}
    assert client.search(PROJECT, "cranes", paths=[str(folder)]).results


def test_code_is_found_by_its_names(client: Foldex, folder: Path) -> None:
    tool = client.tools.create(PROJECT, path=folder)
    assert [symbol.name for symbol in client.tools.symbols(tool, prefix="pa")] == ["parse_header"]
    assert [use.scope for use in client.tools.references(tool, name="parse_header", kind="call")] == ["read"]
    assert [each.name for each in client.tools.callers(tool, "parse_header").items] == ["read"]
    assert [each.name for each in client.tools.callees(tool, "read").items] == ["parse_header"]


def test_lists_fetch_their_further_pages(client: Foldex, folder: Path) -> None:
    tool = client.tools.create(PROJECT, path=folder)
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 6
    # a last page that is full, one that is not, and a page for all
    for size in (1, 2, 3, 4, 6, 7, None):
        assert [file.file_path for file in client.tools.files(tool, page_size=size)] == names, size
    for _ in range(2):
        client.tools.reindex(tool)
        client.tools.wait(tool)
    expected = client.tools.estimate_reindex(tool, full=True, renew_text=True)
    assert (expected.tokens.high, expected.total_files) == (0, len(names))
    assert [task.kind for task in client.tools.tasks(tool, page_size=1)] == ["reindex", "reindex", "create"]
    assert tool.tool_id in {each.tool_id for each in client.tools.list(PROJECT, page_size=1)}


def test_the_states_of_all_tools_of_a_project_are_listed(client: Foldex, folder: Path) -> None:
    other = client.tools.create("states-other", path=folder)
    tools = [client.tools.create("states", path=folder, name=name, wait=False) for name in "abc"]
    client.tools.reindex(tools[1])
    for tool in tools:
        client.tools.wait(tool)
    # the tools share an index: its newest task is that of each
    expected = [client.tools.status(tool) for tool in tools]
    assert len({state.task_id for state in expected}) == 1
    for size in (1, 2, 3, 4, None):
        assert list(client.tools.statuses("states", page_size=size)) == expected, size
    everyone = {state.tool_id for state in client.tools.statuses(page_size=2)}
    assert everyone >= {other.tool_id, *(tool.tool_id for tool in tools)}
    client.tools.delete(tools[0])
    assert [state.tool_id for state in client.tools.statuses("states")] == [tool.tool_id for tool in tools[1:]]


def test_a_tool_is_changed_and_followed(client: Foldex, folder: Path) -> None:
    tool = client.tools.create(PROJECT, path=folder, wait=False)
    with pytest.raises(WaitTimedOut):
        client.tools.wait(tool, timeout=0)
    assert [each.status for each in client.tools.events(tool)][-1] == "ready"
    assert client.tools.retry(tool).tool_id == tool.tool_id
    assert client.tools.wait(tool).status == "ready"
    assert client.tools.cancel(tool).ended
    changed = client.tools.update(tool, name="harbour", config={"every": "1h"})
    assert (changed.name, changed.config.every, changed.updating) == ("harbour", 3600, None)
    client.tools.delete(tool)
    with pytest.raises(NotFound):
        client.tools.get(tool)


def test_nodes_are_kept_uploaded_and_deleted(client: Foldex) -> None:
    folder = client.nodes.create("library", "shelf", "folder")
    text = client.nodes.create("library", "a.md", content="# A", parent_id=folder.id)
    assert client.nodes.get("library", text.id).content == "# A"
    moved = client.nodes.update("library", text.id, name="b.md", parent_id=None)
    assert (moved.name, moved.parent_id) == ("b.md", None)
    files = {"c/d.md": b"# D", "e.exe": b"MZ"}
    stored = client.nodes.upload("library", files, parent_id=folder.id)
    assert [(file.file_path, file.outcome) for file in stored.items] == [("c/d.md", "created"), ("e.exe", "refused")]
    client.nodes.delete("library", folder.id)
    with pytest.raises(NotFound):
        client.nodes.get("library", folder.id)
    client.projects.delete("library")
    assert list(client.tools.list("library")) == []


def test_an_error_is_raised_by_its_code(client: Foldex, folder: Path) -> None:
    tool = client.tools.create(PROJECT, path=folder)
    with pytest.raises(FilterMatchesNothing):
        client.tools.search(tool, "x", filters={"file_ids": ["no-such-file"]})
    with pytest.raises(Invalid, match="top_k"):
        client.tools.search(tool, "x", top_k=0)
    with pytest.raises(FolderGone):
        client.tools.create(PROJECT, path=folder / "missing")
    with pytest.raises(ModelNotAllowed):
        client.tools.create(PROJECT, path=folder, config={"embedding_model": "nobody/nothing"})
    client.nodes.create(PROJECT, "n", "folder", id="taken")
    with pytest.raises(Conflict):
        client.nodes.create(PROJECT, "m", "folder", id="taken")


def test_the_key_decides(running: Service) -> None:
    key = new_key(running, "keyed")
    with another_api(running, AUTH="on") as guarded:
        with Foldex(address(guarded), key, trust_env=False) as client:
            assert list(client.tools.list()) == []
            assert list(client.tools.statuses()) == []
            assert client.ready()
        for wrong in (None, "wrong"):
            with Foldex(address(guarded), wrong, trust_env=False) as client, pytest.raises(Unauthorized) as raised:
                next(client.tools.list())
            assert (raised.value.status, raised.value.retryable) == (401, False)
            assert "keys create" in raised.value.detail


def test_a_wait_for_a_tool_that_is_deleted_ends(client: Foldex, folder: Path) -> None:
    tool = client.tools.create(PROJECT, path=folder, wait=False)
    with pytest.raises(NotFound):
        client.tools.wait(tool, on_progress=lambda _: client.tools.delete(tool))


class Counting(httpx.HTTPTransport):
    """Counts the attempts that found no server."""

    failures = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return super().handle_request(request)
        except httpx.ConnectError:
            self.failures += 1
            raise


def test_a_wait_outlives_a_restart_of_the_service(running: Service, folder: Path) -> None:
    transport, begun, is_down = Counting(), Event(), Event()

    def pause(_: Status) -> None:
        begun.set()
        is_down.wait(60)

    with (
        another_api(running) as restarted,
        Foldex(address(restarted), transport=transport, retries=100) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(client.tools.create, PROJECT, path=folder, on_progress=pause)
        try:
            assert begun.wait(60)
            [(name, process)] = restarted.processes.items()
            stop([process])
        finally:
            is_down.set()
        eventually(lambda: transport.failures > 0, 60)
        restarted.processes[name] = start(process.program, restarted.home)
        assert waiting.result(60).task == "ready"


def test_events_outlive_a_restart_of_the_service(running: Service, folder: Path) -> None:
    workers = [process for name, process in running.processes.items() if name.startswith("worker")]
    with another_api(running) as restarted, Foldex(address(restarted), trust_env=False, retries=100) as client:
        # so that the task ends after the restart
        for worker in workers:
            worker.signal(SIGSTOP)
        try:
            events = client.tools.events(client.tools.create(PROJECT, path=folder, wait=False))
            assert not next(events).ended
            [(name, process)] = restarted.processes.items()
            stop([process])
            restarted.processes[name] = start(process.program, restarted.home)
        finally:
            for worker in workers:
                worker.signal(SIGCONT)
        assert [each.status for each in events][-1] == "ready"


def test_the_same_without_blocking(running: Service, folder: Path) -> None:
    async def run() -> None:
        seen: list[Status] = []
        async with AsyncFoldex(address(running), trust_env=False) as client:
            created = [client.tools.create(PROJECT, path=folder, on_progress=seen.append) for _ in range(2)]
            tool, twin = await asyncio.gather(*created)
            assert tool.index == twin.index
            assert seen[-1].ended
            assert len([file async for file in client.tools.files(tool, page_size=2)]) == 6
            answers = await asyncio.gather(*(client.tools.search(tool, f"{n} cranes") for n in range(4)))
            assert all(answer.results for answer in answers)
            assert [each.status async for each in client.tools.events(tool)] == ["ready"]
            uploaded = await client.nodes.upload("pier", {"a.md": b"# A"})
            assert uploaded.items[0].outcome == "created"
            await client.tools.delete(twin)
            with pytest.raises(NotFound):
                await client.tools.status(twin)

    coroutines.run(run())


def test_the_page_shows_what_its_blocks_print(running: Service) -> None:
    printed, told, names = "", [], dict[str, object]()
    for block in blocks(DOCS / "how-to" / "python.md"):
        if block.language == "python":
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(block.text.replace(ADDRESS, address(running)), "python.md", "exec"), names)
            printed = out.getvalue()
        elif block.language == "text":
            told.append((block.text, printed))
    assert [(text, seen) for text, seen in told if not shows(text, seen)] == []
    assert len(told) == 8


def test_the_example_of_permissions_runs(running: Service) -> None:
    [example] = [block.text for block in blocks(DOCS / "how-to" / "permissions.md") if block.language == "python"]
    with Foldex(address(running), trust_env=False) as client:
        folder = client.nodes.create("acme", name="contracts", type="folder", id="contracts")
        client.nodes.create(
            "acme", name="a.md", type="markdown", parent_id=folder.id, content="The notice period ends."
        )
    names: dict[str, Any] = {}
    exec(compile(example.replace(ADDRESS, address(running)).replace("fx_…", "fx_1"), "permissions.md", "exec"), names)
    assert [hit.file_path for hit in names["answer"].results] == ["/contracts/a.md"]


def test_the_example_of_the_distribution_runs(running: Service, folder: Path) -> None:
    [example] = [block.text for block in blocks(ROOT / "client" / "README.md") if block.language == "python"]
    told = example.replace(ADDRESS, address(running)).replace("/srv/docs", str(folder))
    assert told.count(str(folder)) == 1
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(told, "README.md", "exec"), {})
    assert "header.py 1 " in out.getvalue()
