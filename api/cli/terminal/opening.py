"""Opens the file of a hit: text in an editor at its line, and anything else in the program of its type."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import click

from api.agents.folders import BUCKET, root_of
from api.cli.invocation import VerbFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foldex_client import Tool
    from foldex_client.models import TreeHit

#: Editors that take `-g path:line`, and those that take `path:line`. Most others take `+line path`.
GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
COLON = frozenset({"zed", "zeditor", "subl", "hx", "helix", "micro"})


def open_hit(tool: Tool, found: TreeHit, *, is_here: bool) -> None:
    """Open a hit's file. Raises `VerbFailed` if it is not on this machine, or cannot be opened."""
    root = root_of(tool)
    path = os.path.join(root, found.file_path) if root else ""  # noqa: PTH118 - a string as it is
    if not is_here or root.startswith(BUCKET) or not Path(path).is_file():
        raise VerbFailed(f"{found.file_path} is not a file of this machine; open it where it is kept.")
    from worker.formats.registry import AS_WRITTEN

    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not editor or found.file_type not in AS_WRITTEN:
        if click.launch(path) != 0:
            raise VerbFailed(f"No program opens {path}; set EDITOR, or open it yourself.")
        return
    try:
        status = subprocess.run(command(editor, path, found.start_line), check=False).returncode
    except OSError as error:
        raise VerbFailed(f"{editor[0]} cannot be started ({error.strerror}); set EDITOR to another.") from error
    if status != 0:
        raise VerbFailed(f"{editor[0]} ended with status {status}; set EDITOR to another, or open {path} yourself.")


def command(editor: Sequence[str], path: str, line: int) -> list[str]:
    """The command that opens an editor at a line of a file, given by its absolute path."""
    name = Path(editor[0]).name
    if name in GOTO:
        return [*editor, "-g", f"{path}:{line}"]
    if name in COLON:
        return [*editor, f"{path}:{line}"]
    return [*editor, f"+{line}", path]
