"""Space on the disk: how much is left, and which errors mean that there is none."""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass
from pathlib import Path

from psycopg.errors import DiskFull as PostgresDiskFull

from schemas.errors import DiskFull

#: Of the reserve, the part that only reading, cancelling and deleting may use.
LAST_SHARE = 4
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class Space:
    """The disk of a directory, and the bytes that should stay free on it."""

    place: Path
    reserve: int

    def free(self) -> int:
        """Bytes that are left."""
        return free_bytes(self.place)

    def warning(self) -> str | None:
        """One sentence below the reserve, else None."""
        free = self.free()
        if free >= self.reserve:
            return None
        return f"The disk of {self.place} has {_mb(free)} left, below its reserve of {_mb(self.reserve)}: free some."

    def check(self) -> None:
        """Raise DiskFull when too little is left to add anything."""
        free, needed = self.free(), self.reserve // LAST_SHARE
        if free < needed:
            left = f"The disk of FOLDEX_HOME has {_mb(free)} left and {_mb(needed)} are needed"
            raise DiskFull(f"{left}: free some, or delete tools.")


def free_bytes(place: Path) -> int:
    """Bytes left on the disk of a directory, or of the nearest one above it that exists."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def full_message(place: Path, needed: int) -> str:
    """Tell that a disk is full, where, and what is needed."""
    return f"The disk of {place} is full: {_mb(needed)} are needed, {_mb(free_bytes(place))} are left."


def means_full(error: BaseException | None) -> bool:
    """Tell whether an error, or what caused it, is that a disk is full. LanceDB has no class of its own for it."""
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
