"""Paths with links resolved."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from schemas.errors import FolderGone

#: A link that changes during this many attempts to resolve it counts as missing.
_ATTEMPTS = 10


def real_path(path: str | Path) -> str:
    """The path with links resolved; missing parts stay. Raises `FolderGone` for a link that keeps changing.

    Before Python 3.13, `os.path.realpath` raises if a link disappears while it is being resolved.
    """
    for _ in range(_ATTEMPTS):
        with suppress(OSError):
            return os.path.realpath(path)
    raise FolderGone(f"{path} is not a directory, or no longer exists; choose an existing directory.")


def is_below(path: str, folder: str) -> bool:
    """Whether a real path is that of a folder, or of something in it. It compares names, and looks at no disk."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
