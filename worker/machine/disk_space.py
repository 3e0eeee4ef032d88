"""Disk space: how much is left, and which errors mean that the disk is full."""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass
from pathlib import Path

from psycopg.errors import DiskFull as PostgresDiskFull

from schemas.errors import DiskFull

#: One part in this many of the reserve is kept for reading, cancelling and deleting.
LAST_SHARE = 4
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class Space:
    """The disk of a directory, and the bytes that should stay free on it."""

    place: Path
    reserve: int

    def free(self) -> int:
        """Free space, in bytes."""
        return free_bytes(self.place)

    def warning(self) -> str | None:
        """A sentence if less than the reserve is free, else None."""
        free = self.free()
        if free >= self.reserve:
            return None
        return f"The disk of {self.place} has {_mb(free)} left, below its reserve of {_mb(self.reserve)}: free some."

    def check(self) -> None:
        """Raise `DiskFull` if too little space is left to add anything."""
        free, needed = self.free(), self.reserve // LAST_SHARE
        if free < needed:
            left = f"The disk of FOLDEX_HOME has {_mb(free)} left and {_mb(needed)} are needed"
            raise DiskFull(f"{left}: free some, or delete tools.")


def free_bytes(place: Path) -> int:
    """Free bytes on the disk of a directory, or of its nearest existing parent."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def full_message(place: Path, needed: int) -> str:
    """A message that says which disk is full and how much space is needed."""
    return f"The disk of {place} is full: {_mb(needed)} are needed, {_mb(free_bytes(place))} are left."


def means_full(error: BaseException | None) -> bool:
    """Whether an error, or any cause of it, means that a disk is full. LanceDB has no exception class for that."""
    while error is not None:
        if isinstance(error, DiskFull | PostgresDiskFull):
            return True
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if isinstance(error, OSError | RuntimeError) and "No space left on device" in str(error):
            return True
        error = error.__cause__
    return False


def _mb(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
