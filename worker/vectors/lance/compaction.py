"""When a table of LanceDB is compacted, and how its old files go.

`optimize` of the library rewrites all indexes, and every second time all rows: after each edit it would write the table
again. Queries slow with fragments and with rows that are not indexed, so a table is compacted once it has many of them.

Old versions go with each compaction, and so does what lost races and killed processes left behind. The library keeps
both for long, as they may belong to a commit at work. Every writer therefore holds a shared lock on the table's
directory. An exclusive lock that is granted proves that no commit was at work at that moment, and it is released at
once: nobody ever waits for it, and a process that is stopped holds up only the cleaning.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

#: Where a commit may be at work, versions are kept so long: it reads the one it began with, and all that followed.
KEEP_VERSIONS = timedelta(minutes=10)
#: Seconds to wait for a moment without a commit.
PATIENCE_S = 2.0
#: Directories of a table whose files the library deletes once no version refers to them.
CLEANED = ("data", "_indices", "_deletions", "_transactions")
#: How the names of files begin that are still being written.
TEMPORARY = ".tmp"
#: The library deletes files without a version only when they are older than seven days.
OLD_S = 8 * 86_400
#: Files that are younger stay, as clocks of files are coarse; pause between two tries to lock. Seconds.
COARSE_S, PAUSE_S = 0.1, 0.02


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A table is compacted from any of these on; of "at least" and a share the larger counts.

    Each fragment adds some 0.15 ms to a query, each row that is not indexed some 0.03 ms. A compaction writes up to
    the whole table, so a larger table waits for more of them.
    """

    #: Fragments: at least, at most, and one for so many rows.
    min_fragments: int = 24
    max_fragments: int = 64
    rows_per_fragment: int = 200
    #: Rows that are not indexed: at least, and one in so many rows.
    min_unindexed: int = 256
    unindexed_share: int = 32
    #: Deleted rows: at least, and one in so many. The library removes them where they are a tenth of a fragment.
    min_deleted: int = 256
    deleted_share: int = 5
    #: Versions that may go.
    versions: int = 200

    def fragments(self, rows: int) -> int:
        """Fragments from which on a table of so many rows is compacted."""
        return min(self.max_fragments, max(self.min_fragments, rows // self.rows_per_fragment))


def is_due(table: Any, path: Path, thresholds: Thresholds) -> bool:
    """Tell whether a table should be compacted; takes a few milliseconds."""
    stats = table.stats()
    rows, fragments = stats["num_rows"], stats["fragment_stats"]["num_fragments"]
    # lengths count deleted rows too; their mean is rounded down
    deleted = stats["fragment_stats"]["lengths"]["mean"] * fragments - rows
    unindexed = max((index.num_unindexed_rows or 0 for index in table.list_indices()), default=0)
    return (
        fragments >= thresholds.fragments(rows)
        or unindexed >= max(thresholds.min_unindexed, rows // thresholds.unindexed_share)
        or deleted >= max(thresholds.min_deleted, (rows + deleted) // thresholds.deleted_share)
        or _old_versions(path) >= thresholds.versions
    )


def clean(table: Any, path: Path) -> None:
    """Delete old versions and what no version refers to. Raises what LanceDB raises; call it after a compaction.

    The library has no call for that alone. This one compacts too, which does nothing right after a compaction.
    """
    quiet = _moment_without_commit(path)
    age = KEEP_VERSIONS
    if quiet is not None:
        _age_files(path, before=quiet - COARSE_S)
        # commits that began since then read a version that is kept, and their files are young
        age = timedelta(seconds=max(0.001, time.time() - quiet))
    with committing(path):
        table.optimize(cleanup_older_than=age)


@contextmanager
def committing(path: Path) -> Iterator[None]:
    """Show others that a commit is at work, until the block ends or the process dies."""
    with _directory(path) as directory:
        # who holds it exclusively lets go at once, unless it is stopped just then: go on without it
        _tried_lock(directory, fcntl.LOCK_SH)
        yield


def _moment_without_commit(path: Path) -> float | None:
    """Return a moment at which no commit was at work; None if there is none for a while."""
    with _directory(path) as directory:
        return _tried_lock(directory, fcntl.LOCK_EX)


@contextmanager
def _directory(path: Path) -> Iterator[int | None]:
    """Yield a descriptor of the table's directory; None where it was dropped. Closing it gives its lock back."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _tried_lock(descriptor: int | None, kind: int) -> float | None:
    """Try to lock for a while; the moment at which it was granted, or None."""
    deadline = time.monotonic() + PATIENCE_S
    while descriptor is not None:
        moment = time.time()
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return None
            time.sleep(PAUSE_S)
        except OSError:  # a file system without such locks, where nothing is proved
            return None
        else:
            return moment
    return None


def _age_files(path: Path, *, before: float) -> None:
    """Make files look old that were written before then, so that the library deletes those without a version.

    Files that were not renamed yet are deleted here, as the library does not know them.
    """
    old = time.time() - OLD_S
    for directory in CLEANED:
        for place, _, names in os.walk(path / directory):
            for file in (Path(place) / name for name in names):
                with suppress(FileNotFoundError):
                    written = file.stat().st_mtime
                    if written < before and file.name.startswith(TEMPORARY):
                        file.unlink()
                    elif old < written < before:
                        os.utime(file, (written, old))


def _old_versions(path: Path) -> int:
    before = time.time() - KEEP_VERSIONS.total_seconds()
    with suppress(FileNotFoundError), os.scandir(path / "_versions") as found:
        return sum(item.stat().st_mtime < before for item in found)
    return 0
