"""Temporary directories that do not outlive their process: a later process removes those of a killed one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "foldex-scratch-"
#: Seconds for which a directory without an owner is kept: its owner may be about to lock it.
_MIN_AGE_SECONDS = 60.0


class Scratch:
    """An empty directory, removed at the end of a `with` block. Its owner holds a lock, which ends with the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._handle = os.open(self.path, os.O_RDONLY)
        # some network file systems have no locks: directories of killed processes stay there
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def __enter__(self) -> Path:
        """Return the directory."""
        return self.path

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        self.remove()

    def remove(self) -> None:
        """Remove the directory with its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.leave()

    def leave(self) -> None:
        """Leave the directory to the other process, which a fork made its owner."""
        os.close(self._handle)


def hold_files_of_pool() -> None:
    """Make the Celery pool, in this process and its forks, create its temporary files in a directory of ours."""
    from multiprocessing import process, util

    scratch = Scratch()
    process.current_process()._config["tempdir"] = str(scratch.path)  # type: ignore[attr-defined] # noqa: SLF001 - no public way
    # last of all, as for the directory that the pool would make; forks do not run it
    util.Finalize(None, scratch.remove, exitpriority=-100)


def remove_abandoned() -> int:
    """Remove this user's directories whose owners are dead, and return their number."""
    return sum(_remove_if_abandoned(path) for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))


def _remove_if_abandoned(path: Path) -> bool:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            found = os.fstat(handle)
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < _MIN_AGE_SECONDS:
                return False
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
            return True
        finally:
            os.close(handle)
    return False
