"""Rows of a namespace in memory while it is written: each version is built from the rows of the previous one.

Where the store wrote a row again with the same words, it stays in place, and gets its vector there. So vectors that
follow words cost nothing but their reading. After a compaction the store gives rows other row ids, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from worker.vectors import Vector
from worker.vectors.lance.rough_rows import GrowingRoughRows, RoughRows
from worker.vectors.lance.vector_cache import READ_SHARE, NamespaceRows, Positions, RowIds

T = TypeVar("T", bound=np.generic)

#: Minimum number of further rows for which a namespace's memory has space, as far as its limit allows.
SPARE_ROWS = 1_024

#: Returns which of some rows that were read have the same words as those in memory at some positions.
HaveSameWords = Callable[[RowIds, Positions], NDArray[np.bool_]]


class ListedRows(NamedTuple):
    """What tells rows of a version apart. Of each array, the same place belongs to one row."""

    ids: Sequence[str]
    row_ids: RowIds
    generations: NDArray[np.int64]
    embedded: NDArray[np.bool_]

    @classmethod
    def of(cls, table: Any) -> ListedRows:
        """Read the columns of an Arrow table."""
        return cls(table["id"].to_pylist(), *(table[name].to_numpy() for name in ("_rowid", "generation", "embedded")))


class Changes(NamedTuple):
    """The rows of a version that differ from those in memory.

    Those at `moved` positions have only other row ids, `moved_ids`. `read` are all others: new, or with other values.
    The version has `live` rows. `listed` returns the row ids of all of them.
    """

    moved: Positions
    moved_ids: RowIds
    read: NamespaceRows
    live: int
    listed: Callable[[], RowIds]


class GrowingNamespaceRows:
    """The rows of a namespace in its newest version, built from the rows of the previous version. Thread-safe.

    Their vectors take at most `max_bytes`, with those of one byte a dimension. Whoever makes a version holds `turn`.
    """

    def __init__(self, version: int, rows: NamespaceRows, max_bytes: int) -> None:
        self.turn = Lock()
        self._lock = Lock()
        self._max_bytes = max_bytes
        self._row_bytes: int = rows.unit.itemsize * rows.unit.shape[1]
        self._rough = GrowingRoughRows(rows.unit.shape[1])
        #: The vectors of the rows are a view of this, so that rows are added without copying all others.
        self._memory = self._roomy(rows.unit)
        unit = self._memory[: len(rows.unit)]
        #: The last position of each id, once a table changes.
        self._places: dict[str, int] = {}
        self._latest = version, replace(rows, unit=unit, rough=self._rough_of(unit))

    @property
    def nbytes(self) -> int:
        """Bytes of all vectors, including deleted rows'. The space for new ones takes no memory until it is used."""
        return self._latest[1].unit.nbytes + self._rough.nbytes

    @property
    def latest(self) -> tuple[int, NamespaceRows]:
        """The newest version, and its rows."""
        return self._latest

    def has_room(self, before: NamespaceRows, live: int, new: int) -> bool:
        """Return whether a version with `live` rows can follow `before`, with `new` rows at the end of the memory.

        It cannot if deleted rows would fill half of the memory.
        """
        return len(before.unit) + new <= min(2 * live + SPARE_ROWS, self._max_rows)

    def unchanged(self, before: NamespaceRows, listed: ListedRows) -> Positions:
        """Return the positions of rows of a later version whose values are those in memory; -1 for others.

        They are as long as a row's generation is, and whether it has a vector.
        """
        places = self._positions(before, listed.ids)
        at = np.flatnonzero(places >= 0)
        known, has_vector = places[at], ~_mask(before.absent, len(before.unit))
        is_same = (before.generations[known] == listed.generations[at]) & (has_vector[known] == listed.embedded[at])
        places[at[~is_same]] = -1
        return places

    def advance(
        self, before: NamespaceRows, version: int, changes: Changes, have_same_words: HaveSameWords | None = None
    ) -> bool:
        """Make the rows of a version the latest. `before` are those of the previous one.

        A row that was written again stays in place if it has the same words, and had no vector or the same one.
        Returns False if there is no room. Changes nothing if another thread was faster.
        """
        read = changes.read
        places = self._positions(before, read.ids)
        stays = self._stay(before, read, places, have_same_words)
        is_new = ~stays
        gone = [places[is_new & (places >= 0)]]
        if changes.live != len(before.row_ids) + np.count_nonzero(is_new & (places < 0)):
            gone.append(_deleted(before, [changes.moved, places[places >= 0]], changes.listed()))
        with self._lock:
            used, new = len(before.unit), int(np.count_nonzero(is_new))
            if before is not self._latest[1]:
                return True
            if not self.has_room(before, changes.live, new):
                return False
            if used + new > len(self._memory):
                self._memory = self._roomy(before.unit, new)
            unit = self._memory[: used + new]
            unit[used:] = read.unit[is_new]
            filled = places[stays]
            unit[filled] = read.unit[stays]
            self._rough.replace(unit, filled)
            at = places.copy()
            at[is_new] = np.arange(used, used + new)
            after = _advanced(before, version, changes, at, np.concatenate(gone))
            after = replace(after, unit=unit, rough=self._rough_of(unit))
            # last, because all versions share them: what takes memory may fail
            new_ids = [read.ids[at] for at in np.flatnonzero(is_new).tolist()]
            before.ids.extend(new_ids)
            self._places.update(zip(new_ids, range(used, used + new), strict=True))
            self._latest = version, after
            return True

    def _positions(self, before: NamespaceRows, ids: Sequence[str]) -> Positions:
        """Return the positions of live rows with these ids; -1 for others."""
        if not ids:
            return np.empty(0, np.intp)
        with self._lock:
            if not self._places:
                self._places = {id_: at for at, id_ in enumerate(self._latest[1].ids)}
        get = self._places.get
        places = np.fromiter((get(id_, -1) for id_ in ids), np.intp, len(ids))
        is_live = np.zeros(len(before.unit) + 1, np.bool_)
        is_live[before.positions] = True
        places[places >= len(before.unit)] = -1  # another thread was faster
        return np.where(is_live[places], places, -1)

    def _stay(
        self, before: NamespaceRows, read: NamespaceRows, places: Positions, have_same_words: HaveSameWords | None
    ) -> NDArray[np.bool_]:
        """Return which of the rows read stay in place."""
        stays = places >= 0
        if have_same_words is None or not stays.any():
            return np.zeros(len(places), np.bool_)
        is_absent = _mask(before.absent, len(before.unit))
        had, has = ~is_absent[places], ~_mask(read.absent, len(read.unit))
        # earlier states compare the vectors that they have, so none of these changes
        stays &= ~had | (has & (before.unit[places] == read.unit).all(axis=1))
        at = np.flatnonzero(stays)
        stays[at] = have_same_words(read.row_ids_at(at), places[at])
        return stays

    @property
    def _max_rows(self) -> int:
        return (self._max_bytes - self._rough.nbytes) // self._row_bytes

    def _rough_of(self, unit: Vector) -> RoughRows | None:
        return self._rough.of(unit, READ_SHARE * self._max_bytes - unit.nbytes)

    def _roomy(self, unit: Vector, new: int = 0) -> Vector:
        """Copy vectors into an array with space for as many new ones as may come before half of all are deleted."""
        needed = len(unit) + new
        space = max(needed, min(2 * needed + SPARE_ROWS, self._max_rows))
        memory = np.empty((space, unit.shape[1]), np.float32)
        memory[: len(unit)] = unit
        return memory


def _advanced(before: NamespaceRows, version: int, changes: Changes, at: Positions, gone: Positions) -> NamespaceRows:
    """Return the rows `before` with the changes: rows that were read are `at` these positions, others are `gone`."""
    read, used = changes.read, len(before.unit)
    length = max(used, int(at.max(initial=-1)) + 1)
    read_ids = read.row_ids_at(np.arange(len(read.ids)))
    is_old = ~_mask(np.concatenate([changes.moved, at, gone]), length)[before.positions]
    row_ids = np.concatenate([before.row_ids[is_old], changes.moved_ids, read_ids])
    positions = np.concatenate([before.positions[is_old], changes.moved, at])
    # the newest row ids are the greatest, and a stable sort is fast where most are in order
    order = np.argsort(row_ids, kind="stable")
    is_absent = _mask(np.concatenate([before.absent, gone]), length)
    is_absent[at] = _mask(read.absent, len(at))
    return replace(
        before,
        id_starts=_with(before.id_starts, at, read.id_starts, length),
        generations=_with(before.generations, at, read.generations, length),
        written=_with(before.written, at, np.full(len(at), version), length),
        row_ids=row_ids[order],
        positions=positions[order],
        absent=np.flatnonzero(is_absent),
    )


def _deleted(before: NamespaceRows, rewritten: Sequence[Positions], row_ids: RowIds) -> Positions:
    """Return the positions of rows that are not among `row_ids`, apart from those written again."""
    is_left = _mask(np.concatenate(rewritten), len(before.unit))
    is_left[before.positions[np.isin(before.row_ids, row_ids, assume_unique=True)]] = True
    return before.positions[~is_left[before.positions]]


def _mask(positions: Positions, length: int) -> NDArray[np.bool_]:
    mask = np.zeros(length, np.bool_)
    mask[positions] = True
    return mask


def _with(before: NDArray[T], at: Positions, values: NDArray[T], length: int) -> NDArray[T]:
    """Return a longer array with these values at some positions."""
    after = np.empty(length, before.dtype)
    after[: len(before)] = before
    after[at] = values
    return after
