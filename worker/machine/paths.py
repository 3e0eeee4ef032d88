"""Paths with links resolved."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from schemas.errors import FolderGone

#: Number of attempts to resolve a changing link before it counts as missing.
_ATTEMPTS = 10


def real_path(path: str | Path) -> str:
    """Return the path with links resolved; missing parts stay. Raises `FolderGone` for a link that keeps changing.

    Before Python 3.13, `os.path.realpath` raises if a link disappears while it is being resolved.
    """
    for _ in range(_ATTEMPTS):
        with suppress(OSError):
            return os.path.realpath(path)
    raise FolderGone(f"{path} is not a directory, or no longer exists; choose an existing directory.")


def is_below(path: str, folder: str) -> bool:
    """Return whether a real path equals a folder's or lies below it. It compares names only, without the disk."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
