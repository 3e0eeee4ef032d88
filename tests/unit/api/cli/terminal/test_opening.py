"""How editors are started at a line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.cli.invocation import VerbFailed
from api.cli.terminal.opening import command, open_hit


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [
        (["vi"], ["+7", "/a b"]),
        (["/usr/bin/emacs", "-nw"], ["-nw", "+7", "/a b"]),
        (["code", "--wait"], ["--wait", "-g", "/a b:7"]),
        (["/opt/zed"], ["/a b:7"]),
    ],
)
def test_each_editor_gets_the_line_in_its_way(editor: list[str], arguments: list[str]) -> None:
    assert command(editor, "/a b", 7)[1:] == arguments


@pytest.mark.parametrize(("type_", "opened"), [("code", "editor"), ("markdown", "editor"), ("docx", "program")])
def test_only_text_is_opened_in_an_editor(
    type_: str, opened: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    used: list[str] = []
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr("api.cli.terminal.opening.root_of", lambda _: str(tmp_path))

    def use(what: str, answer: Any) -> Any:
        used.append(what)
        return answer

    monkeypatch.setattr("click.launch", lambda _: use("program", 0))
    monkeypatch.setattr("api.cli.terminal.opening.command", lambda *_: use("editor", ["true"]))
    found = cast("Any", SimpleNamespace(file_path="file", start_line=1, page=None, file_type=type_))
    open_hit(cast("Any", None), found, is_here=True)
    assert used == [opened]


@pytest.mark.parametrize(("root", "is_here"), [("/nowhere", True), ("/", False), ("s3://bucket", True)])
def test_what_is_not_on_this_machine_is_not_opened(root: str, is_here: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.cli.terminal.opening.root_of", lambda _: root)
    found = cast("Any", SimpleNamespace(file_path="etc/passwd", start_line=1, page=None))
    with pytest.raises(VerbFailed, match="not a file of this machine"):
        open_hit(cast("Any", None), found, is_here=is_here)
