"""Rows of a namespace in memory while it is written: each version is built from the rows of the previous one.

After a compaction the store gives rows other row ids, with the same content. These rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.vectors import Vector
from worker.vectors.lance.rough_rows import GrowingRoughRows, RoughRows
from worker.vectors.lance.vector_cache import READ_SHARE, NamespaceRows, RowIds

#: Minimum number of further rows for which a namespace's memory has space, as far as its limit allows.
SPARE_ROWS = 1_024


class GrowingNamespaceRows:
    """The rows of a namespace in its newest version, built from the rows of the previous version. Thread-safe.

    Their vectors take at most `max_bytes`, with those of one byte a dimension.
    """

    def __init__(self, version: int, rows: NamespaceRows, max_bytes: int) -> None:
        self._lock = Lock()
        self._max_bytes = max_bytes
        self._row_bytes: int = rows.unit.itemsize * rows.unit.shape[1]
        self._rough = GrowingRoughRows(rows.unit.shape[1])
        #: The vectors of the rows are a view of this, so that rows are added without copying all others.
        self._memory = self._roomy(rows.unit)
        unit = self._memory[: len(rows.unit)]
        self._latest = version, replace(rows, unit=unit, rough=self._rough_of(unit))

    @property
    def nbytes(self) -> int:
        """Bytes of all vectors, including deleted rows'. The space for new ones takes no memory until it is used."""
        return self._latest[1].unit.nbytes + self._rough.nbytes

    @property
    def latest(self) -> tuple[int, NamespaceRows]:
        """The newest version, and its rows."""
        return self._latest

    def has_room(self, before: NamespaceRows, row_ids: RowIds, new: int) -> bool:
        """Return whether a version with these rows can follow `before`, which lacks `new` of its rows.

        It cannot if deleted rows would fill half of the memory.
        """
        most = min(2 * len(row_ids) + SPARE_ROWS, self._max_rows)
        return len(before.unit) + new <= most

    def advance(
        self,
        before: NamespaceRows,
        version: int,
        row_ids: RowIds,
        added: NamespaceRows | None,
        moved: NamespaceRows | None = None,
    ) -> bool:
        """Make the rows of a version the latest: the rows with these ids, of which `before` lacks `added`.

        `moved` are the rows `before` with the row ids of that version, if these differ. Returns False if another thread
        was faster, or if there is no room.
        """
        new = len(added.ids) if added is not None else 0
        with self._lock:
            used = len(before.unit)
            if before is not self._latest[1] or not self.has_room(before, row_ids, new):
                return False
            if used + new > len(self._memory):
                self._memory = self._roomy(before.unit, new)
            if added is not None:
                self._memory[used : used + new] = added.unit
                before.ids.extend(added.ids)
            unit = self._memory[: used + new]
            after = _advanced(moved or before, row_ids, added, unit)
            self._latest = version, replace(after, rough=self._rough_of(unit))
            return True

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


def _advanced(before: NamespaceRows, row_ids: RowIds, added: NamespaceRows | None, unit: Vector) -> NamespaceRows:
    kept = np.isin(before.row_ids, row_ids, assume_unique=True)
    ids, positions = before.row_ids[kept], before.positions[kept]
    is_absent = np.zeros(len(unit), np.bool_)
    is_absent[before.absent] = is_absent[before.positions[~kept]] = True
    if added is not None:
        ids = np.concatenate([ids, added.row_ids])
        positions = np.concatenate([positions, added.positions + len(before.unit)])
        is_absent[added.absent + len(before.unit)] = True
    order = np.argsort(ids)
    starts, generations = before.id_starts, before.generations
    if added is not None:
        starts = np.concatenate([starts, added.id_starts])
        generations = np.concatenate([generations, added.generations])
    absent = np.flatnonzero(is_absent)
    return replace(
        before,
        id_starts=starts,
        generations=generations,
        unit=unit,
        row_ids=ids[order],
        positions=positions[order],
        absent=absent,
    )


class ListedRows(NamedTuple):
    """What tells rows of a version apart. Of each array, the same place belongs to one row."""

    ids: Sequence[str]
    row_ids: RowIds
    generations: NDArray[np.int64]
    embedded: NDArray[np.bool_]


def renumbered(rows: NamespaceRows, listed: ListedRows) -> tuple[NamespaceRows, RowIds]:
    """Give rows in memory the row ids of a later version. Returns these rows, and the `listed` row ids of new rows.

    The values of a row are the same as long as its generation is, and whether it has a vector.
    """
    at = dict(zip(map(rows.ids.__getitem__, rows.positions.tolist()), rows.positions.tolist(), strict=True))
    places = np.fromiter((at.get(id_, -1) for id_ in listed.ids), np.intp, len(listed.ids))
    has_vector = np.ones(len(rows.unit), np.bool_)
    has_vector[rows.absent] = False
    is_same = places >= 0
    known = places[is_same]
    is_same[is_same] = (rows.generations[known] == listed.generations[is_same]) & (
        has_vector[known] == listed.embedded[is_same]
    )
    row_ids = np.zeros(len(rows.unit), np.uint64)
    row_ids[rows.positions] = rows.row_ids
    row_ids[places[is_same]] = listed.row_ids[is_same]
    order = np.argsort(row_ids[rows.positions])
    positions = rows.positions[order]
    return replace(rows, row_ids=row_ids[positions], positions=positions), listed.row_ids[~is_same]
