"""What `foldex`, the command, must not do by accident: make two tools of a folder, permit or delete one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.cli import invocation
from api.cli.invocation import Invocation
from api.cli.service import folder_tools
from api.cli.service.connection import Connection
from api.cli.service.folder_tools import estimate_tool, start_indexing
from foldex_client.errors import Invalid, SourceRefused, TimedOut
from tests.integration.commanding import foldex
from tests.service import TOOLS, Service
from worker.machine.named_folders import name_folder, named_folders, named_folders_file

ANYONE = Invocation(server=None, key=None, project=None)


def test_commands_that_index_a_folder_at_once_make_one_tool(
    running: Service, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "twice"
    folder.mkdir()
    (folder / "a.md").write_text("Everybody has thirty days of holiday.\n")
    # each command listed the tools before another one made its own
    monkeypatch.setattr(folder_tools, "tools_of", lambda _: [])
    for more in ((), ("--name", "second", "--watch"), ()):
        done = foldex(running, "index", str(folder), *more)
        assert done.returncode == 0, done.stderr
    made = [tool for tool in running.get(TOOLS)["items"] if tool["source"]["path"] == str(folder)]
    assert [(tool["name"], tool["config"]["watch"]) for tool in made] == [("second", True)]


@pytest.fixture
def stack(running: Service, tmp_path: Path) -> Iterator[Connection]:
    """The service, as if it were an embedded stack that reads no other file of named folders."""
    connection = Connection(str(running.client.base_url), tmp_path / "home", ANYONE)
    yield connection
    connection.close()


def test_a_refused_folder_is_not_permitted(stack: Connection, root: Path, tmp_path: Path) -> None:
    permitted = named_folders_file(tmp_path / "home")
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "inside").mkdir()
    for _ in range(2):
        with pytest.raises(SourceRefused):
            start_indexing(stack, str(outside), None, {})
        with pytest.raises(SourceRefused):
            estimate_tool(stack, str(outside), {})
        with pytest.raises(Invalid):
            start_indexing(stack, str(root / "inside"), None, {"chunk_size": -1})
        assert named_folders(permitted) == []
    name_folder(permitted, str(outside))
    with pytest.raises(SourceRefused):
        start_indexing(stack, str(outside), None, {})
    assert named_folders(permitted) == [outside]


def test_only_a_folder_with_a_tool_stays_permitted(stack: Connection, root: Path, tmp_path: Path) -> None:
    permitted = named_folders_file(tmp_path / "home")
    folder = root / "estimated first"
    folder.mkdir()
    (folder / "a.md").write_text("Everybody has thirty days of holiday.\n")
    estimate_tool(stack, str(folder), {})
    assert named_folders(permitted) == []
    start_indexing(stack, str(folder), None, {})
    assert named_folders(permitted) == [folder]
    with pytest.raises(Invalid):
        start_indexing(stack, str(folder), None, {"chunk_size": -1})
    estimate_tool(stack, str(folder), {})
    assert named_folders(permitted) == [folder]


def test_a_folder_stays_permitted_while_nobody_knows_whether_it_has_a_tool(
    stack: Connection, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "perhaps indexed"
    folder.mkdir()
    monkeypatch.setattr(folder_tools, "tools_of", lambda _: [])
    # it may have made the tool, although its answer did not come
    monkeypatch.setattr(stack.foldex.tools, "create", lost)
    with pytest.raises(TimedOut):
        start_indexing(stack, str(folder), None, {})
    assert named_folders(named_folders_file(tmp_path / "home")) == [folder]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), TimedOut("no answer in time")])
def test_an_estimate_that_is_broken_off_leaves_no_folder_permitted(
    stack: Connection, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    folder = root / f"broken off {type(fault).__name__}"
    folder.mkdir()
    permitted = named_folders_file(tmp_path / "home")
    seen: list[Path] = []

    def broken_off(*_arguments: Any, **_options: Any) -> None:
        seen.extend(named_folders(permitted))
        raise fault

    monkeypatch.setattr(stack.foldex.tools, "estimate", broken_off)
    with pytest.raises(type(fault)):
        estimate_tool(stack, str(folder), {})
    assert (seen, named_folders(permitted)) == ([folder], [])


def lost(*_arguments: Any, **_options: Any) -> None:
    raise TimedOut("no answer in time")


def test_enter_alone_deletes_nothing(running: Service, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root / "kept"
    folder.mkdir()
    (folder / "a.md").write_text("Still wanted.\n")
    tool = running.local_tool(folder)
    monkeypatch.setattr(invocation, "has_terminal", lambda: True)
    for answer, status in (("\n", 2), ("n\n", 2), ("y\n", 0)):
        done = foldex(running, "delete", str(folder), stdin=answer)
        assert done.returncode == status, done.stderr
        assert running.client.get(f"{TOOLS}/{tool}").status_code == (404 if status == 0 else 200)
