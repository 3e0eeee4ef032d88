"""What `foldex`, the command, must not do by accident: make two tools of a folder, or delete one."""

from __future__ import annotations

from pathlib import Path

import pytest

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
