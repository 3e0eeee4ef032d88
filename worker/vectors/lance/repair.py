"""Diagnoses a LanceDB table after a failed call, and sets damaged data aside or rebuilds it.

Files of a table may be deleted, truncated or overwritten, by others or by a broken disk. Indexes are rebuilt from the
rows. A table whose rows cannot be read, or that lacks columns, is set aside, as if it had been deleted: Foldex then
writes its rows again from Postgres and the embedding cache.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

import structlog

from worker.machine.error_texts import lacks_memory, system_error
from worker.vectors.lance import indexes, vector_index
from worker.vectors.lance.cleaning import alone, committing

log = structlog.get_logger()

#: Attempts to read a table whose files others delete at the same time, as compactions do.
ATTEMPTS = 10
#: Attempts that must fail, while nobody writes, before a table counts as damaged.
FAILURES = 2
#: Rows that are read at a time, and bytes that are read ahead: Lance's own limit is 2 GB.
BATCH_ROWS = 1024
AHEAD_BYTES = 64 * 1024**2
#: Seconds for which a version of a table that was found intact is not read again.
TRUST_S = 60.0
#: Maximum number of tables for which that is remembered.
MAX_TRUSTED = 1000
#: Maximum number of damaged tables that a directory keeps; the oldest are deleted.
KEPT = 3
#: Names of damaged tables: the time at which they were set aside, and their own name.
ASIDE = re.compile(r"\.damaged-(\d{20})-([A-Za-z0-9\-_.]+\.lance)")
#: The system's errors for a file that is missing, of the wrong kind, or on a broken disk. Other errors are not damage,
#: such as missing permission, too many open files or a full disk.
DAMAGE = {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.EINVAL, errno.ENXIO}

#: The column of words in tables from before the first release.
OLD = "keywords"
#: Number from which the name of a version's file is subtracted.
LAST_VERSION = 2**64 - 1
#: Exceptions of libraries for unreadable data.
_FOREIGN = (OSError, RuntimeError, ValueError, TypeError, LookupError)


class Condition(Enum):
    """The diagnosis of a table."""

    WHOLE = auto()
    #: Its rows are readable. Unreadable indexes or old versions were replaced or deleted.
    MENDED = auto()
    #: Its rows were unreadable, so it was set aside.
    SET_ASIDE = auto()
    #: The system or other writers prevented reading it.
    UNKNOWN = auto()


def versions(path: Path) -> frozenset[Path]:
    """Return the files of a table's versions. They change with each commit, and when old versions are deleted."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return frozenset((path / "_versions").iterdir())
    return frozenset()


def is_panic(error: BaseException) -> bool:
    """Return whether Rust code panicked, as it does for some damage. Not all panics are an `Exception`."""
    return type(error).__module__.startswith("pyo3_")


def may_be_damage(error: BaseException | None) -> bool:
    """Return whether damaged files may have caused an error: the system refused nothing, and memory sufficed."""
    if error is None or not (isinstance(error, _FOREIGN) or is_panic(error)) or lacks_memory(error):
        return False
    number = system_error(error)
    return number is None or number in DAMAGE


class Repairs:
    """Diagnoses and repairs tables of a directory after a failed call. Threads may share it.

    `opened` opens a version of a table, or the latest, with empty caches. A table has these `columns`.
    """

    def __init__(
        self,
        directory: Path,
        opened: Callable[[Path, int | None], Any],
        columns: frozenset[str],
    ) -> None:
        self._directory, self._columns = directory, columns
        self._opened = opened
        self._lock = Lock()
        self._trusted: dict[str, tuple[frozenset[Path], float]] = {}

    def look(self, namespace: str, path: Path, *, again: bool = False) -> Condition:
        """Read all of a table, and repair it; with `again`, even if it was found intact just now.

        Returns `UNKNOWN` if another thread diagnoses a table.
        """
        if not self._lock.acquire(blocking=False):
            return Condition.UNKNOWN
        try:
            if not again and self._is_trusted(namespace, path):
                return Condition.WHOLE
            found = self._look(namespace, path)
            if found in {Condition.WHOLE, Condition.MENDED}:
                if len(self._trusted) >= MAX_TRUSTED:
                    self._trusted.clear()
                self._trusted[namespace] = versions(path), time.monotonic()
            return found
        finally:
            self._lock.release()

    def is_old(self, path: Path) -> bool:
        """Return whether a table that can be opened has the columns from before the first release."""
        try:
            return self._has_old_columns(self._opened(path, None))
        except BaseException as error:
            if not may_be_damage(error):
                raise
            return False

    def _has_old_columns(self, dataset: Any) -> bool:
        names = {*dataset.schema.names}
        return OLD in names or not self._columns <= names

    def _is_trusted(self, namespace: str, path: Path) -> bool:
        """Return whether a table was recently found intact: a read takes seconds, too long for each refused call."""
        known, looked_at = self._trusted.get(namespace, (None, 0.0))
        return known == versions(path) and time.monotonic() - looked_at < TRUST_S

    def _look(self, namespace: str, path: Path) -> Condition:
        failures = 0
        for _ in range(ATTEMPTS):
            before, number = versions(path), _number(path)
            if number is None or _is_refused(path):
                return Condition.UNKNOWN
            try:
                # opened again, because a compaction deletes files that earlier openings still refer to
                dataset = self._opened(path, None)
                if self._has_old_columns(dataset):
                    return set_aside(self._directory, path, number, "its columns are those of before the first release")
                _read_rows(dataset)
                return self._mend(namespace, path)
            except BaseException as error:
                if not may_be_damage(error):
                    if isinstance(error, Exception):
                        return Condition.UNKNOWN
                    raise
                failures = failures + 1 if versions(path) == before else 0
                if failures == FAILURES:
                    return set_aside(self._directory, path, number, str(error))
        return Condition.UNKNOWN

    def _mend(self, namespace: str, path: Path) -> Condition:
        """Replace the unreadable parts of a table whose rows are readable."""
        found = Condition.WHOLE
        for manifest, version in _older(path):
            if not _is_readable(partial(self._opened, path, version)) and manifest.exists():
                log.warning("an old version of a LanceDB table cannot be read", table=namespace, version=version)
                _delete(manifest)
                found = Condition.MENDED
        for column in (*indexes.indexable(self._opened(path, None), large_rows=0), "vector"):
            if not _is_readable(partial(self._read_index, path, column)):
                log.warning("an index of a LanceDB table cannot be read; making it again", table=namespace, of=column)
                with committing(path):
                    if column == "vector":
                        vector_index.create(self._opened(path, None))
                    else:
                        indexes.create(self._opened(path, None), column)
                found = Condition.MENDED
        return found

    def _read_index(self, path: Path, column: str) -> None:
        dataset = self._opened(path, None)
        if column == "vector":
            vector_index.read_all(dataset)
        else:
            indexes.read_all(dataset, column)


def _is_readable(read: Callable[[], object]) -> bool:
    """Return whether a read succeeds within a few attempts, between which a compaction may end."""
    for _ in range(FAILURES):
        try:
            read()
        except BaseException as error:
            if not may_be_damage(error):
                raise
        else:
            return True
    return False


def drop_set_aside(directory: Path, name: str) -> None:
    """Delete the set-aside copies of a table."""
    for found, of in _all_set_aside(directory):
        if of == name:
            _delete(found)


def _read_rows(dataset: Any) -> None:
    scanner = dataset.scanner(
        batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1, io_buffer_size=AHEAD_BYTES
    )
    for _ in scanner.to_batches():
        pass


def _number(path: Path) -> int | None:
    """Return the inode number at `path`; None if nothing is there."""
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return None


def _is_refused(path: Path) -> bool:
    """Return whether the system refuses to open a file for another reason than damage."""
    errors: list[OSError] = []
    for folder, _, names in os.walk(path, onerror=errors.append):
        for name in names:
            try:
                # a pipe would block forever
                os.close(os.open(Path(folder) / name, os.O_RDONLY | os.O_NONBLOCK))
            except OSError as error:
                errors.append(error)
    return any(error.errno not in DAMAGE for error in errors)


def _older(path: Path) -> list[tuple[Path, int]]:
    """Yield the files of a table's older versions, with their numbers. Newer releases of Lance count backwards."""
    numbered = [(file, int(file.stem)) for file in versions(path) if re.fullmatch(r"\d{1,20}\.manifest", file.name)]
    found = sorted(
        ((file, LAST_VERSION - n if n > LAST_VERSION // 2 else n) for file, n in numbered), key=itemgetter(1)
    )
    return found[:-1]


def set_aside(directory: Path, path: Path, number: int | None = None, cause: str = "") -> Condition:
    """Rename a damaged table, unless another process renamed or recreated it, so that its `number` differs."""
    kept = directory / f".damaged-{time.time_ns():020}-{path.name}"
    try:
        with alone(path):
            if number is not None and _number(path) != number:
                return Condition.UNKNOWN
            path.rename(kept)
    except OSError as error:
        log.exception("a damaged LanceDB table cannot be set aside", table=path.stem, error=str(error))
        return Condition.UNKNOWN
    log.error(
        "a LanceDB table is damaged; it is set aside, and its rows are written again",
        table=path.stem,
        kept=str(kept),
        error=cause,
    )
    for old, _ in _all_set_aside(directory)[:-KEPT]:
        _delete(old)
    return Condition.SET_ASIDE


def _all_set_aside(directory: Path) -> list[tuple[Path, str]]:
    """Return the set-aside tables with their original names, oldest first."""
    found = [(entry, match[2]) for entry in directory.iterdir() if (match := ASIDE.fullmatch(entry.name))]
    return sorted(found)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
