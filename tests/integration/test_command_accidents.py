"""What `foldex`, the command, must not do by accident: make two tools of a folder, or delete one."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli import invocation
from api.cli.service import folder_tools
from tests.integration.commanding import foldex
from tests.service import TOOLS, Service


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
