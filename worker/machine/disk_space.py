"""Disk space: the free space, and the errors that mean that the disk is full."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from psycopg.errors import DiskFull as PostgresDiskFull

from schemas.errors import DiskFull
from worker.machine.error_texts import lacks_space

#: Bytes that should stay free. On a small disk, this share of the disk.
RESERVE_BYTES, RESERVE_SHARE = 512 << 20, 1 / 10
#: One part in this many of the reserve is kept for reading, cancelling and deleting.
LAST_SHARE = 4
#: Bytes that threads of this process are writing, by directory.
_being_written: Counter[Path] = Counter()
_lock = Lock()
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The disk of a directory, and the bytes that should stay free on it."""

    directory: Path
    reserve: int

    def free(self) -> int:
        """Return the free space, in bytes."""
        return free_bytes(self.directory)

    def warning(self) -> str | None:
        """Return a sentence if less than the reserve is free, else None."""
        free = self.free()
        if free >= self.reserve:
            return None
        shortage = f"The disk of {self.directory} has {_mb(free)} left, below its reserve of {_mb(self.reserve)}"
        return f"{shortage}; free some space."

    def check(self, size: int = 0) -> None:
        """Raise `DiskFull` if too little space is left to add this many bytes, or anything."""
        free, needed = self.free() - size, self.reserve // LAST_SHARE
        if free < needed:
            shortage = f"The disk of FOLDEX_HOME has {_mb(max(0, free))} left, but {_mb(needed)} are needed"
            raise DiskFull(f"{shortage}; free some space, or delete tools.")

    @contextmanager
    def adding(self, size: int) -> Iterator[None]:
        """Write this many bytes within the block. Raises `DiskFull` if too little space would be left.

        Concurrent writes of other threads count as well. Other processes can each exceed the bound by one block.
        """
        with _lock:
            _being_written[self.directory] += size
            together = _being_written[self.directory]
        try:
            self.check(together)
            yield
        finally:
            with _lock:
                _being_written[self.directory] -= size


def free_bytes(directory: Path) -> int:
    """Return the free bytes on the disk of a directory, or of its nearest existing parent."""
    return shutil.disk_usage(_existing(directory)).free


def usual_reserve(directory: Path) -> int:
    """Return the bytes that should stay free on that disk."""
    return int(min(RESERVE_BYTES, RESERVE_SHARE * shutil.disk_usage(_existing(directory)).total))


def full_message(directory: Path, needed: int) -> str:
    """Return a message with the full disk, the space needed, and the remedy."""
    left = _mb(free_bytes(directory))
    return f"The disk of {directory} is full: {_mb(needed)} are needed, {left} are left; free some space."


def means_full(error: BaseException | None) -> bool:
    """Return whether an error, or any cause of it, means that a disk is full."""
    while error is not None:
        if isinstance(error, DiskFull | PostgresDiskFull):
            return True
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if lacks_space(error):
            return True
        error = error.__cause__
    return False


def _existing(directory: Path) -> Path:
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    return directory


def _mb(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
