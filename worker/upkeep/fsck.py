"""Compares a namespace with the rows, id by id, and repairs it.

Work may continue meanwhile, so the order of the reads makes each verdict certain. A live chunk's vector is written
before it becomes live, and its row is deleted before its vector. A chunk that was live before the store was read, and
still is, has lost its vector if the store did not return it. A vector's row is written before the vector. A vector
without a row or tombstone after the store was read is a stray for good.

Lost vectors are only marked here. Tasks write them again from the rows: they read no file and pay nothing for texts
that the embedding cache still holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from schemas.errors import StoreError
from worker.state.index import chunks, drift
from worker.state.index.embedding_cache import VectorOwner
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.vectors import Patch, StoredAttributes, Value, VectorStore

#: Maximum number of ids compared at a time.
PAGE = 20_000
#: Ids are hashes, so a range of them is a random sample. It misses the loss of one vector in a hundred once in 20,000
#: times. Checks go through the ranges in turn.
SAMPLE = 1000
#: Maximum number of rows whose attributes are compared at a time.
ATTRIBUTES_PAGE = 5000
#: Maximum bytes of a namespace that each run reads in full, some ten thousand chunks in a tenth of a second. Readers
#: find damage in a larger one.
RUN_BYTES = 2**24
#: Maximum bytes of a namespace that a periodic check reads in full.
CHECK_BYTES = 2**30
#: Maximum number of vectors deleted per request.
MAX_DELETES = 5000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Differences between an index, its namespace and its own counts. Every number except `live` should be 0.

    `missing`: live chunks without a vector. `stray`: vectors without a row or tombstone. `miscounted`: files whose row
    has a wrong number of live chunks. `bare`: indexed files without live chunks. `unfinished`: rows of an idle index
    that never became live. `overdue`: tombstones that the sweep should have handled. `busy`: a task is open.
    `misplaced`: vectors whose attributes, such as the path, differ from their rows.
    """

    live: int
    missing: int
    stray: int
    miscounted: int
    bare: int
    unfinished: int
    overdue: int
    busy: bool
    misplaced: int = 0

    @property
    def drift(self) -> dict[str, int]:
        """The numbers that are not 0, by name."""
        names = ("missing", "stray", "misplaced", "miscounted", "bare", "unfinished", "overdue")
        return {name: number for name in names if (number := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair, and the task that does the rest; `texts` of the `lost` vectors are not cached."""

    deleted: int = 0
    recounted: int = 0
    buried: int = 0
    lost: int = 0
    texts: int = 0
    task_id: UUID | None = None
    patched: int = 0


def inspect(pool: Pool, store: VectorStore, index: Index) -> IndexReport:
    """Compare an index with its namespace in constant memory. Raises `StoreError`."""
    store.verify(index.namespace)
    was_busy = drift.is_busy(pool, index.id)
    rows, (miscounted, bare) = drift.count_rows(pool, index.id), drift.count_wrong_files(pool, index.id)
    missing = stray = 0
    for lost, unknown in differences(pool, store, index):
        missing, stray = missing + len(lost), stray + len(unknown)
    wrong = sum(len(ids) for ids in misplaced(pool, store, index))
    busy = was_busy or drift.is_busy(pool, index.id)
    unfinished = 0 if busy else rows.unfinished
    return IndexReport(rows.live, missing, stray, miscounted, bare, unfinished, rows.overdue, busy, wrong)


def repair(pool: Pool, store: VectorStore, index: Index) -> RepairResult:
    """Repair an idle index, and start a task for data that must be written or read again.

    Raises `StoreError`, or `LeaseLost` once a task works on the index; everything done by then is correct.
    """
    store.verify(index.namespace)
    lost = deleted = 0
    for missing, stray in differences(pool, store, index):
        drift.mark_lost(pool, index.id, missing, None)
        _delete(store, index, stray)
        lost, deleted = lost + len(missing), deleted + len(stray)
    patched = sum(_patch(pool, store, index, ids) for ids in misplaced(pool, store, index))
    recounted = drift.recount(pool, index.id)
    buried = drift.bury_unfinished(pool, index.id)
    deleted += _delete_overdue(pool, store, index)
    task_id = drift.start(pool, index.id) if lost or recounted else None
    texts = drift.count_unpaid(pool, index.id, VectorOwner(index.project_id, index.settings.embedder)) if lost else 0
    return RepairResult(deleted, recounted, buried, lost, texts, task_id, patched)


def mark_lost_before_listing(pool: Pool, store: VectorStore, index: Index, task_id: UUID) -> None:
    """Mark the vectors that the namespace lost as the first work of a task; `index` was read under its epoch.

    Raises `LeaseLost` if the epoch moved on.
    """
    try:
        store.verify(index.namespace, RUN_BYTES)
        if _has_lost_some(pool, store, index):
            log.warning("the namespace has lost vectors; writing them again", namespace=index.namespace)
            for missing, _ in differences(pool, store, index):
                drift.mark_lost(pool, index.id, missing, index.epoch)
    except StoreError as error:
        # a task that finds nothing to write needs no store; the namespace is checked again after the task closes
        log.warning("namespace not compared", namespace=index.namespace, code=error.code, reason=error.message)
    taken = drift.take_up(pool, index.id, task_id, index.epoch)
    if taken:
        log.info("files without vectors queued again", files=taken)


def check(pool: Pool, store: VectorStore, index: Index, verified_bytes: int = RUN_BYTES) -> UUID | None:
    """Start a task over an idle index whose namespace has lost vectors, and return its id. Raises `StoreError`.

    Each call compares the next range of ids and repairs other differences there. A namespace of up to `verified_bytes`
    is read in full, because damage may be anywhere. Raises `LeaseLost` if another task begins at the same time; that
    task makes its own check.
    """
    if drift.is_busy(pool, index.id):
        return None
    store.verify(index.namespace, verified_bytes)
    lost_some = _look_further(pool, store, index, SAMPLE)
    if not lost_some:
        return None
    log.warning("the namespace has lost vectors; a task writes them again", namespace=index.namespace)
    for missing, _ in differences(pool, store, index):
        drift.mark_lost(pool, index.id, missing, None)
    return drift.start(pool, index.id)


def differences(
    pool: Pool, store: VectorStore, index: Index, page: int = PAGE
) -> Iterator[tuple[list[UUID], list[UUID]]]:
    """Yield live chunks without a vector and vectors without a row, in ranges of up to `page` ids.

    Raises `StoreError`.
    """
    after: UUID | None = None
    while True:
        missing, stray, after = _window(pool, store, index, after, page)
        if missing:
            missing = drift.still_live(pool, index.id, missing, include_lost=True)
        if stray:
            stray = drift.unknown(pool, index.id, stray)
        yield missing, stray
        if after is None:
            return


def _window(
    pool: Pool, store: VectorStore, index: Index, after: UUID | None, limit: int
) -> tuple[list[UUID], list[UUID], UUID | None]:
    """Return ids that only the rows, and only the store, seem to have, and the end of the range (None if last)."""
    live = drift.live_ids(pool, index.id, after, limit)
    return _compared(live, store.ids(index.namespace, after, limit), limit)


def _compared(live: list[UUID], stored: list[UUID], limit: int) -> tuple[list[UUID], list[UUID], UUID | None]:
    """Return the same for two pages of up to `limit` ids after the same id."""
    end = min((page[-1] for page in (live, stored) if len(page) == limit), default=None)
    live, stored = ([id_ for id_ in page if end is None or id_ <= end] for page in (live, stored))
    return sorted(set(live).difference(stored)), sorted(set(stored).difference(live)), end


def _look_further(pool: Pool, store: VectorStore, index: Index, limit: int) -> bool:
    """Compare the ids after those of the previous call. Returns whether vectors are newly lost.

    Deletes strays and rewrites wrong attributes. Raises `StoreError` and `LeaseLost`.
    """
    after = drift.cursor(pool, index.id)
    lost_some = False
    # after the last id it continues from the first, so that every call compares some
    for start in [after] if after is None else [after, None]:
        missing, stray, end = _window(pool, store, index, start, limit)
        lost_some |= bool(missing) and bool(drift.still_live(pool, index.id, missing, include_lost=False))
        if strays := drift.unknown(pool, index.id, stray) if stray else []:
            log.warning("vectors without a row deleted", namespace=index.namespace, vectors=len(strays))
            _delete(store, index, strays)
        if wrong := _wrong(pool, store, index, start, limit):
            log.warning("vectors had wrong attributes", namespace=index.namespace, vectors=len(wrong))
            _patch(pool, store, index, wrong)
        drift.note_compared(pool, index.id, end)
        if end is not None:
            break
    return lost_some


def misplaced(pool: Pool, store: VectorStore, index: Index, page: int = ATTRIBUTES_PAGE) -> Iterator[list[UUID]]:
    """Yield vectors whose attributes differ from their rows, in ranges of up to `page` ids. Raises `StoreError`."""
    after: UUID | None = None
    while ids := list(store.attributes(index.namespace, after, page)):
        yield _wrong(pool, store, index, after, page)
        after = ids[-1]


def _wrong(pool: Pool, store: VectorStore, index: Index, after: UUID | None, limit: int) -> list[UUID]:
    """Return the ids in a range whose stored attributes match their rows neither before nor after the store was read.

    The store is patched before the rows change, so a single read of each could catch a file in between.
    """
    stored = store.attributes(index.namespace, after, limit)
    before = drift.read_expected(pool, index.id, list(stored))
    unequal = partial(_unequal, store, index.namespace)
    if not unequal(stored, before):
        return []
    stored = store.attributes(index.namespace, after, limit)
    now = drift.read_expected(pool, index.id, list(stored))
    return sorted(unequal(stored, before) & unequal(stored, now))


def _unequal(
    store: VectorStore,
    namespace: str,
    stored: dict[UUID, StoredAttributes],
    expected: dict[UUID, dict[str, Value]],
) -> set[UUID]:
    return {id_ for id_, row in expected.items() if id_ in stored and stored[id_] != store.stored(namespace, row)}


def _patch(pool: Pool, store: VectorStore, index: Index, ids: list[UUID]) -> int:
    """Rewrite the attributes and words of an idle index's rows. Returns their number."""
    if not ids:
        return 0
    generation, rows, words = drift.rewrite(pool, index.id, ids)
    patches = [Patch(id_, row, words[id_] if store.has_keywords else None, generation) for id_, row in rows.items()]
    store.write(index.namespace, index.settings.embedder.dimensions, patches=patches)
    return len(patches)


def _has_lost_some(pool: Pool, store: VectorStore, index: Index) -> bool:
    """Return whether a sample of the live chunks lacks vectors, not counting known losses."""
    live = drift.live_ids(pool, index.id, None, SAMPLE)
    # an index without chunks may have no namespace yet
    missing = _compared(live, store.ids(index.namespace, None, SAMPLE), SAMPLE)[0] if live else []
    return bool(missing) and bool(drift.still_live(pool, index.id, missing, include_lost=False))


def _delete(store: VectorStore, index: Index, ids: list[UUID]) -> None:
    for start in range(0, len(ids), MAX_DELETES):
        batch = ids[start : start + MAX_DELETES]
        store.write(index.namespace, index.settings.embedder.dimensions, deletes=batch)


def _delete_overdue(pool: Pool, store: VectorStore, index: Index) -> int:
    deleted = 0
    while ids := drift.overdue(pool, index.id, MAX_DELETES):
        _delete(store, index, ids)
        chunks.purge_tombstones(pool, ids)
        deleted += len(ids)
    return deleted
