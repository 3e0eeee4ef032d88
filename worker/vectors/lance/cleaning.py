"""Deletes old versions of LanceDB tables, and files left behind by lost races and killed processes.

The library keeps both for long, because a running commit may need them. Every writer therefore holds a shared lock on
the table's directory. A granted exclusive lock proves that no commit was running at that moment, and is released at
once. So no process ever waits for it, and a stopped process delays only the cleaning.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

#: Versions are kept this long if a commit may be running. A commit reads the version it began with and all later ones.
KEEP_VERSIONS = timedelta(minutes=10)
#: Maximum seconds to wait for a moment without a commit.
MAX_WAIT_S = 2.0
#: Directories of a table in which the library deletes files that no version refers to.
CLEANED = ("data", "_indices", "_deletions", "_transactions")
#: Directories in which a killed process may leave files that it had not renamed yet.
WRITTEN = (*CLEANED, "_versions")
#: Names of unfinished files; no version refers to one.
TEMPORARY = re.compile(r"\.tmp.*|.*#\d+")
#: Age in seconds that `_age_files` gives to files. The library deletes unreferenced files only after seven days.
OLD_S = 8 * 86_400
#: Seconds: younger files are kept, because file clocks are coarse.
COARSE_S = 0.1
#: Seconds between two attempts to lock.
PAUSE_S = 0.02


def clean(dataset: Any, path: Path) -> None:
    """Delete old versions and unreferenced files. Raises Lance's errors."""
    quiet_since = _moment_without_commit(path)
    age = KEEP_VERSIONS
    if quiet_since is not None:
        _delete_temporary(path, before=quiet_since - COARSE_S)
        _age_files(path, before=quiet_since - COARSE_S)
        # Commits that began since then read a version that is kept, and their files are young.
        age = timedelta(seconds=max(0.001, time.time() - quiet_since))
    with committing(path):
        dataset.cleanup_old_versions(older_than=age)


@contextmanager
def committing(path: Path) -> Iterator[None]:
    """Signal other processes that a commit is running, until the block ends or the process dies."""
    with _directory(path) as directory:
        # An exclusive holder releases the lock at once unless it is stopped at that moment; continue without the lock.
        _try_lock(directory, fcntl.LOCK_SH)
        yield


@contextmanager
def alone(path: Path) -> Iterator[int | None]:
    """Yield the inode number of a table's directory once no commit runs there, or after `MAX_WAIT_S`.

    Yields None if there is no directory.
    """
    with _directory(path) as directory:
        _try_lock(directory, fcntl.LOCK_EX)
        yield None if directory is None else os.fstat(directory).st_ino


def _moment_without_commit(path: Path) -> float | None:
    """Return a moment at which no commit was running; None if there is none within `MAX_WAIT_S`."""
    with _directory(path) as directory:
        return _try_lock(directory, fcntl.LOCK_EX)


@contextmanager
def _directory(path: Path) -> Iterator[int | None]:
    """Yield a descriptor of the table's directory; None if the table was dropped. Closing it releases its lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int | None, kind: int) -> float | None:
    """Try to lock for up to `MAX_WAIT_S`. Returns the moment at which the lock was granted, or None."""
    deadline = time.monotonic() + MAX_WAIT_S
    while descriptor is not None:
        moment = time.time()
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return None
            time.sleep(PAUSE_S)
        except OSError:  # a file system without such locks; nothing is proved
            return None
        else:
            return moment
    return None


def _delete_temporary(path: Path, *, before: float) -> None:
    """Delete temporary files written before then, because the library does not know them."""
    for file, written in _files(path, WRITTEN):
        if written < before and TEMPORARY.fullmatch(file.name):
            file.unlink(missing_ok=True)


def _age_files(path: Path, *, before: float) -> None:
    """Make files written before then look old, so that the library deletes those that no version refers to."""
    old = time.time() - OLD_S
    for file, written in _files(path, CLEANED):
        if old < written < before:
            with suppress(FileNotFoundError):
                os.utime(file, (written, old))


def _files(path: Path, directories: Sequence[str]) -> Iterator[tuple[Path, float]]:
    """Yield the files below some directories of a table, with the time at which each was written."""
    for directory in directories:
        for folder, _, names in os.walk(path / directory):
            for file in (Path(folder) / name for name in names):
                with suppress(FileNotFoundError):
                    yield file, file.stat().st_mtime


def has_versions_to_delete(path: Path, number: int) -> bool:
    """Return whether old versions can be deleted. A running commit may need versions younger than `KEEP_VERSIONS`."""
    written: list[float] = []
    with suppress(FileNotFoundError), os.scandir(path / "_versions") as files:
        written = [file.stat().st_mtime for file in files if file.name.endswith(".manifest")]
    before = time.time() - KEEP_VERSIONS.total_seconds()
    return len(written) >= number and (
        sum(when < before for when in written) >= number or _moment_without_commit(path) is not None
    )
