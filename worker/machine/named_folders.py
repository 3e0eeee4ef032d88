"""Folders that the owner of an embedded stack named on the command line or in the page, and that it may read.

They are kept in a file that only its owner can write. A file that others could have written is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from worker.machine.owned_file import read_owned, rewrite_owned


def named_folders_file(home: Path) -> Path:
    """Return the path of an installation's file with named folders."""
    return home / "run" / "folders.json"


def named_folders(file: Path | None) -> list[Path]:
    """Return the real paths in a file; none if the file is missing, or if another user could have written it.

    A folder whose path contains a newer symbolic link is left out. Later links are not followed either.
    """
    paths = [] if file is None else _parsed(read_owned(file))
    return [Path(path) for path in paths if _is_real(path)]


def name_folder(file: Path, path: str) -> bool:
    """Add a folder whose path has no links. Returns whether it is new. Raises OSError if the file cannot be written."""
    return _rewrite(file, lambda paths: [*paths, path] if path not in paths else paths)


def forget_folder(file: Path, path: str) -> None:
    """Remove a folder. Raises OSError if the file cannot be written."""
    _rewrite(file, lambda paths: [each for each in paths if each != path])


def _rewrite(file: Path, change: Callable[[list[str]], list[str]]) -> bool:
    """Rewrite the file. Returns whether the change had an effect."""

    def changed(before: bytes) -> bytes:
        paths = _parsed(before)
        after = change(paths)
        return before if after == paths else json.dumps(after).encode()

    return rewrite_owned(file, changed)


def _parsed(data: bytes) -> list[str]:
    with suppress(ValueError, RecursionError):
        paths = json.loads(data)
        if isinstance(paths, list):
            return [path for path in paths if isinstance(path, str) and path.startswith("/") and "\0" not in path]
    return []


def _is_real(path: str) -> bool:
    try:
        return os.path.realpath(path) == path
    except OSError:
        return False
