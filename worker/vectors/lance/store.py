"""Rows in embedded LanceDB: one table per namespace in one directory, shared by any number of processes.

Seven rules apply. Breaking any of the first six was seen to lose or duplicate rows, or to crash:

1. `id` is declared as primary key; otherwise concurrent merges silently duplicate rows. 2. Nothing is opened before a
fork. 3. A write is one commit for all its rows. 4. Only `optimize` compacts, from one place, and is repeated on a
conflict. 5. A table appears complete, with its indexes, or not at all. 6. Every call opens the table again (under 1
ms), so that it sees what other processes wrote, dropped and recreated. 7. `optimize` rewrites only small or new parts
(see `compaction`), so the cost of an edit follows its size.

Lance itself (`pylance`) reads and writes. LanceDB uses the same Lance, but takes a sixth longer to write, and 0.3 s and
27 MB to import. So only vector searches use it.

Vector search is exact below 200,000 rows, and wherever it has filters. Larger tables have an approximate index.
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

import structlog

from schemas.errors import StoreError, StoreRefused, StoreUnavailable
from worker.machine.disk_space import means_full
from worker.machine.error_texts import lacks_file, system_error
from worker.vectors import (
    CHECKED_ATTRIBUTES,
    Leg,
    Patch,
    Ranked,
    StoredAttributes,
    Value,
    Vector,
    VectorRow,
)
from worker.vectors.lance import indexes, vector_index
from worker.vectors.lance.cleaning import clean, committing, has_versions_to_delete
from worker.vectors.lance.compaction import Thresholds, compact, is_due
from worker.vectors.lance.crashes import OpenCalls
from worker.vectors.lance.filter_sql import is_in
from worker.vectors.lance.repair import (
    Condition,
    Repairs,
    drop_set_aside,
    is_panic,
    may_be_damage,
    set_aside,
    versions,
)
from worker.vectors.lance.row_tables import MAX_IDS, patched_rows, schema_of, upsert_table
from worker.vectors.lance.vector_cache import MAX_BYTES, unpack_vectors
from worker.vectors.lance.word_memory import WORD_BYTES
from worker.vectors.rows import can_match, check, storable

if TYPE_CHECKING:
    from worker.vectors.lance.searcher import Searcher

T = TypeVar("T")

log = structlog.get_logger()

#: Advice for an error without a known remedy.
FAILED = "LanceDB failed; check the free space and permissions of its directory, then try again."
#: Attempts of a commit that loses races.
ATTEMPTS = 10
#: Maximum seconds of the first pause between two attempts; this maximum doubles with each attempt.
FIRST_PAUSE_S = 0.02
#: Seconds beyond which that maximum does not grow.
LONGEST_PAUSE_S = 1.0
#: Seconds after which an unfinished table creation counts as abandoned. Creating a table takes less than one second.
ABANDONED_S = 3600
#: Cache bytes of a writing process for indexes.
INDEX_BYTES = 64 * 1024**2
#: Cache bytes of a writing process for metadata. Each commit adds some, up to gigabytes if unbounded.
METADATA_BYTES = 32 * 1024**2
#: The remedy after a failed call, by the diagnosis of the table.
_AFTER = {
    Condition.WHOLE: "Files of this namespace were deleted in the meantime; try again.",
    Condition.MENDED: "An index of this namespace was damaged and has been made again; try again.",
    Condition.SET_ASIDE: "The vectors of this index were damaged. They are written again by the next run, or the next "
    "check within minutes; try again then.",
    Condition.UNKNOWN: FAILED,
}


class LanceStore:
    """The vector store that needs no account. Threads may share one; a process opens its own after any fork."""

    def __init__(
        self,
        directory: Path,
        *,
        has_keywords: bool,
        thresholds: Thresholds | None = None,
        word_bytes: int = WORD_BYTES,
        table_bytes: int | None = None,
        vector_bytes: int = MAX_BYTES,
    ) -> None:
        self._directory = directory
        self._has_keywords = has_keywords
        self._thresholds = thresholds or Thresholds()
        #: The caches of a searching process: words, other data of tables, vectors.
        self._cache_bytes = word_bytes, table_bytes, vector_bytes
        self._lock = threading.Lock()
        self._process: int | None = None
        self._session: Any = None
        self._searching: Searcher | None = None
        self._calls = OpenCalls(directory, lambda name: set_aside(directory, directory / name))
        columns = frozenset(schema_of(1, has_keywords=has_keywords).names)
        self._repairs = Repairs(directory, _dataset, columns)

    @property
    def has_keywords(self) -> bool:
        """Whether the store runs keyword legs."""
        return self._has_keywords

    @property
    def is_here(self) -> bool:
        """Whether searches run in this process."""
        return True

    def write(
        self,
        namespace: str,
        dimensions: int,
        upserts: Sequence[VectorRow] = (),
        patches: Sequence[Patch] = (),
        deletes: Sequence[UUID] = (),
    ) -> None:
        """Apply all changes, one commit per kind. Raises `StoreRefused` or `StoreUnavailable`; then repeat the call."""
        check(upserts, patches, deletes)
        data = upsert_table(upserts, dimensions, has_keywords=self._has_keywords) if upserts else None
        if data is not None and not self._path(namespace).exists():
            with self._whole(namespace):
                self._create(namespace, data.schema)
        path = self._path(namespace)
        with committing(path), self._table(namespace) as opened:
            if opened is None:
                return
            if data is not None:
                _require_dimensions(_read(opened, path), dimensions)
                _commit(lambda: _update_older(opened()).when_not_matched_insert_all().execute(data))
            for merged in patched_rows(opened, patches, has_keywords=self._has_keywords):
                _commit(partial(_patch, opened, merged))
            for start in range(0, len(deletes), MAX_IDS):
                condition = is_in("id", [str(id_) for id_ in deletes[start : start + MAX_IDS]])
                _commit(partial(_delete, opened, condition))

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[Ranked]:
        """Return one ranking per leg, ties ordered by id. Raises `StoreRefused` or `StoreUnavailable`."""
        answerable = [can_match(leg, has_keywords=self._has_keywords) for leg in legs]
        path = self._path(namespace)
        if not any(answerable) or not path.exists():
            return [Ranked([], []) for _ in legs]
        with self._whole(namespace):
            rankings = iter(_read(partial(self._searcher().search, namespace, list(compress(legs, answerable))), path))
        return [next(rankings) if is_answerable else Ranked([], []) for is_answerable in answerable]

    def ids(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        """Return the next `limit` ids in ascending order; fewer only at the end. Raises `StoreUnavailable`."""
        return [UUID(str(row["id"])) for row in self._rows(namespace, after, limit, ())]

    def stored(self, _namespace: str, attributes: Mapping[str, Value]) -> StoredAttributes:
        """Return the result of `attributes` for a row that was written with these values."""
        return {name: storable(value) for name, value in attributes.items()}

    def attributes(self, namespace: str, after: UUID | None, limit: int) -> dict[UUID, StoredAttributes]:
        """Return the attributes of the next `limit` rows in ascending order of ids. Raises `StoreUnavailable`."""
        rows = self._rows(namespace, after, limit, CHECKED_ATTRIBUTES)
        return {UUID(str(row.pop("id"))): row for row in rows}

    def _rows(self, namespace: str, after: UUID | None, limit: int, columns: Sequence[str]) -> list[dict[str, Value]]:
        above = None if after is None else f"id > '{after}'"
        with self._table(namespace) as opened:
            if opened is None:
                return []
            scan = partial(_scan, opened, columns=["id", *columns], filter=above, order_by=["id"], limit=limit)
            rows: list[dict[str, Value]] = _read(scan, self._path(namespace)).to_pylist()
            return rows

    def vectors(self, namespace: str, ids: Sequence[UUID]) -> dict[UUID, Vector]:
        """Return the vectors of the ids that have one. Raises `StoreUnavailable`."""
        by_id: dict[UUID, Vector] = {}
        path = self._path(namespace)
        with self._table(namespace) as opened:
            if opened is None:
                return {}
            for start in range(0, len(ids), MAX_IDS):
                chosen = is_in("id", [str(id_) for id_ in ids[start : start + MAX_IDS]])
                scan = partial(_scan, opened, columns=["id", "vector"], filter=f"{chosen} AND embedded")
                rows = _read(scan, path)
                vectors = zip(rows["id"].to_pylist(), unpack_vectors(rows["vector"]), strict=True)
                by_id |= {UUID(id_): vector for id_, vector in vectors}
        return by_id

    def drop(self, namespace: str) -> bool:
        """Delete the namespace with all its rows and all leftovers of late writers. Returns whether it existed.

        Raises `StoreUnavailable`.
        """
        path, existed = self._path(namespace), False
        with _map_errors(path):
            with suppress(FileNotFoundError):
                path.rename(self._directory / f".dropped-{uuid4().hex}")
                existed = True
            drop_set_aside(self._directory, path.name)
            # Also delete leftovers of crashed processes.
            for dropped in self._directory.glob(".dropped-*"):
                shutil.rmtree(dropped, ignore_errors=True)
            for staging in self._directory.glob(".new-*"):
                with suppress(FileNotFoundError):
                    if time.time() - staging.stat().st_mtime > ABANDONED_S:
                        shutil.rmtree(staging, ignore_errors=True)
        return existed

    def verify(self, namespace: str, most_bytes: int | None = None) -> None:
        """Read all of a table with at most `most_bytes`, and repair it or set it aside. Raises `StoreUnavailable`.

        A table of any size is set aside if its columns are from before the first release.
        """
        path = self._path(namespace)
        if not os.path.lexists(path):
            return
        with self._calls.call(path.name), _map_errors(path):
            if most_bytes is not None and _bytes(path) > most_bytes and not self._repairs.is_old(path):
                return
            if self._repairs.look(namespace, path, again=most_bytes is None) is Condition.UNKNOWN:
                raise StoreUnavailable(FAILED)

    def optimize(self, namespace: str, *, writing: bool = False) -> None:
        """Merge small files, index new rows and remove old versions, if that is due. Otherwise return quickly.

        While a run is `writing`, it is due less often, and nothing is merged.

        Raises `StoreUnavailable` if it loses every race against writers.
        """
        path = self._path(namespace)
        with self._whole(namespace):
            # `_dataset` caches nothing, because a cache would keep index files open that are deleted here.
            if not path.exists() or (writing and not is_due(_dataset(path), self._thresholds, writing=True)):
                return
            with committing(path):
                _commit(lambda: indexes.add_missing(_dataset(path), self._thresholds.large_rows))
            due = is_due(_dataset(path), self._thresholds, writing=writing)
            if due:
                with committing(path):
                    _commit(partial(compact, partial(_dataset, path), self._thresholds, writing=writing))
            if vector_index.is_due(_dataset(path), self._thresholds.large_rows):
                due = True
                with committing(path):
                    _commit(partial(vector_index.extend, partial(_dataset, path), self._thresholds.large_rows))
            if due or has_versions_to_delete(path, self._thresholds.versions):
                _commit(lambda: clean(_dataset(path), path))

    @contextmanager
    def _table(self, namespace: str) -> Iterator[Callable[[], Any] | None]:
        """Yield a function that opens the latest version of a table, or None if it does not exist."""
        path = self._path(namespace)
        opened = self._opener(path) if path.exists() else None
        with self._whole(namespace):
            yield opened

    @contextmanager
    def _whole(self, namespace: str) -> Iterator[None]:
        """Map errors as `_map_errors` does, after a table with damaged files is repaired or set aside."""
        path = self._path(namespace)
        try:
            with self._calls.call(path.name), _map_errors(path):
                yield
        except StoreError as error:
            # a dangling link is damage, too
            if not may_be_damage(error.__cause__) or not os.path.lexists(path):
                raise
            with self._calls.call(path.name):
                found = self._repairs.look(namespace, path)
            if found is Condition.WHOLE and not lacks_file(error.__cause__):
                raise
            raise StoreUnavailable(_AFTER[found]) from error

    def _path(self, namespace: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9\-_.]{1,128}", namespace):
            raise StoreRefused(f"{namespace!r} is not a valid namespace; use letters, digits and - _ . only.")
        return self._directory / f"{namespace}.lance"

    def _opener(self, path: Path) -> Callable[[], Any]:
        """Return a function that opens a table with the caches of this process."""
        with self._one_process():
            if self._session is None:
                self._session = _new_session()
            return partial(_dataset, path, session=self._session)

    def _searcher(self) -> Searcher:
        from worker.vectors.lance.searcher import Searcher

        with self._one_process():
            if self._searching is None:
                word_bytes, table_bytes, vector_bytes = self._cache_bytes
                self._searching = Searcher(self._directory, word_bytes, self._calls, table_bytes, vector_bytes)
            return self._searching

    @contextmanager
    def _one_process(self) -> Iterator[None]:
        with self._lock:
            self._process = self._process or os.getpid()
            if self._process != os.getpid():
                raise RuntimeError("this LanceStore was used before the fork; create one in each process")
            yield

    def _create(self, namespace: str, schema: Any) -> None:
        """Build the empty table with its indexes in a staging directory and move it into place; the first one wins."""
        staging = self._directory / f".new-{uuid4().hex}"
        with _map_errors(staging):
            staging.mkdir(parents=True)
            try:
                _build(staging, namespace, schema)
                (staging / f"{namespace}.lance").rename(self._path(namespace))
            except OSError as error:
                if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                    raise
            finally:
                shutil.rmtree(staging)


def _bytes(path: Path) -> int:
    """Return the size of all files below `path`."""
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                found += (Path(folder) / name).lstat().st_size
    return found


def _new_session() -> Any:
    """Create caches for tables. The import of Lance is cheap, but starts threads."""
    import lance

    return lance.Session(INDEX_BYTES, METADATA_BYTES)


def _dataset(path: Path, version: int | None = None, session: Any = None) -> Any:
    """Open a table; without a session, with empty caches."""
    import lance

    return lance.dataset(path, version=version, session=session or _new_session())


def _build(directory: Path, namespace: str, schema: Any) -> None:
    import lance

    dataset = lance.write_dataset(schema.empty_table(), directory / f"{namespace}.lance", mode="create")
    indexes.add_missing(dataset, vector_index.MIN_ROWS)


def _update_older(dataset: Any) -> Any:
    """Return a merge that does not change rows with a greater generation."""
    return dataset.merge_insert("id").when_matched_update_all("target.generation <= source.generation")


def _patch(opened: Callable[[], Any], merged: Any) -> None:
    _update_older(opened()).execute(merged)


def _delete(opened: Callable[[], Any], condition: str) -> None:
    opened().delete(condition)


def _scan(opened: Callable[[], Any], **query: object) -> Any:
    """Return the rows that a query of the latest version finds."""
    return opened().scanner(**query).to_table()


def _require_dimensions(dataset: Any, dimensions: int) -> None:
    present = dataset.schema.field("vector").type.list_size
    if present != dimensions:
        raise StoreRefused(
            f"The namespace has vectors with {present} dimensions, not {dimensions}; use another namespace."
        )


def _commit(action: Callable[[], T]) -> T:
    """Run `action`, and repeat it while it loses races against other writers."""
    pause = FIRST_PAUSE_S
    for _ in range(ATTEMPTS - 1):
        try:
            return action()
        except (OSError, RuntimeError):
            # There is no exception class for a lost race, and no other commit error is known to be permanent.
            time.sleep(random.uniform(0, pause))  # noqa: S311 - only spreads writers out
            pause = min(2 * pause, LONGEST_PAUSE_S)
    return action()


def _read(action: Callable[[], T], path: Path) -> T:
    """Run `action`, and repeat it if a file is missing: a compaction deletes files of older versions.

    It is repeated once, and again while the versions of the table at `path` change.
    """
    before = None
    for _ in range(ATTEMPTS - 1):
        try:
            return action()
        except (RuntimeError, ValueError) as error:
            now = versions(path)
            if not lacks_file(error) or now == before:
                raise
            before = now
    return action()


@contextmanager
def _map_errors(path: Path) -> Iterator[None]:
    """Turn LanceDB's errors, which are plain Python ones, into `StoreError`. `path` is the table or staging directory.

    LanceDB's messages name paths of the machine that built it, so they stay in the cause.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if not path.exists():
            raise StoreUnavailable("The namespace was dropped in the meantime; try again.") from error
        if system_error(error) is not None:
            raise StoreUnavailable(FAILED) from error
        raise StoreRefused("LanceDB rejected these rows or this filter; see the log for the reason.") from error
    except (OSError, RuntimeError) as error:
        if means_full(error):
            raise StoreUnavailable("The disk of LanceDB's directory is full; free some space.") from error
        raise StoreUnavailable(FAILED) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise StoreUnavailable(FAILED) from error
