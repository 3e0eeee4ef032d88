"""Temporary files of readers. They leave space on their disk, which other programs often share."""

from __future__ import annotations

import shutil
import tempfile

from schemas.errors import FileError
from schemas.reason import Reason

#: Bytes that stay free, and the share of a small disk that does.
RESERVE_BYTES, RESERVE_SHARE = 64 << 20, 1 / 4


def check_disk(size: int) -> None:
    """Raise `FileError` (`unreadable`) if temporary files of `size` more bytes would leave too little room."""
    disk = shutil.disk_usage(tempfile.gettempdir())
    if disk.free - size < min(RESERVE_BYTES, disk.total * RESERVE_SHARE):
        left = f"The disk of temporary files has {disk.free >> 20:,} MiB left"
        message = f"{left}, too few to read this file; free some, or set TMPDIR to a larger disk, then retry."
        raise FileError(Reason.UNREADABLE, message)
