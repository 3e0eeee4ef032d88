"""Paths without links."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from schemas.errors import FolderGone

#: A link that is turned so often while it is looked at leads nowhere.
_ATTEMPTS = 10


def real_path(path: str | Path) -> str:
    """The path without links; what is missing of it stays. Raises `FolderGone` for a link that does not hold still.

    Before Python 3.13, `os.path.realpath` raises where a link goes between two looks at it.
    """
    for _ in range(_ATTEMPTS):
        with suppress(OSError):
            return os.path.realpath(path)
    raise FolderGone(f"{path} is not a directory (any more); name one that exists.")
