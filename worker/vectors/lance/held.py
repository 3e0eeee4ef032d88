"""Rows of namespaces at rest, held in memory: to compare vectors there takes a tenth of the time of reading them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from uuid import UUID

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from worker.vectors import Found, Vector
from worker.vectors.rows import ranked

#: Bytes of vectors that a process holds: those of 170,000 rows of 384 dimensions.
MAX_BYTES = 256 * 1024**2
#: Of the searches of an unchanged namespace, the second reads all rows; should others take their place, a later one.
READ_FIRST, READ_EVERY = 2, 16
#: Rows compared once more, beyond the limit, so that it cuts between equal distances by id and not by chance.
TIES = 64

Places = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Rows:
    """All n rows of a namespace in one of its states.

    `places` (n), ascending, are where the store keeps them, `unit` (n, dimensions) their vectors, each of length 1;
    those at `absent` have none. `columns` are all that the namespace has.
    """

    ids: list[UUID]
    places: Places
    unit: Vector
    absent: NDArray[np.intp]
    columns: frozenset[str]

    def nearest(self, vector: Vector, limit: int) -> list[Found]:
        """Return the `limit` rows nearest by cosine distance, equal ones by id."""
        asked = vector / _lengths(vector)
        likeness = self.unit @ asked
        likeness[self.absent] = -np.inf
        count = min(limit + TIES, len(likeness) - len(self.absent))
        near = np.argpartition(likeness, -count)[-count:] if count else np.arange(0)
        # the last bits of such a product depend on where a row stands: equal rows would differ
        distances = 1 - (self.unit[near].astype(np.float64) * asked).sum(axis=1)
        found = zip(map(self.ids.__getitem__, near.tolist()), distances.tolist(), strict=True)
        return ranked(found, descending=False, limit=limit)

    def at(self, places: Places) -> list[UUID]:
        """Return the ids of the rows that are kept there."""
        return [self.ids[number] for number in np.searchsorted(self.places, places).tolist()]


def rows(
    ids: list[str], places: Places, vectors: Vector, *, embedded: NDArray[np.bool_], columns: frozenset[str]
) -> Rows:
    """Return rows in any order as they are searched; vectors may have any length but 0."""
    order = np.argsort(places)
    unit = vectors[order]
    # in place: there may be hundreds of megabytes
    unit /= _lengths(unit)
    return Rows(
        ids=[UUID(ids[number]) for number in order.tolist()],
        places=places[order],
        unit=unit,
        absent=np.flatnonzero(~embedded[order]),
        columns=columns,
    )


_Held = tuple[Hashable, Rows]


class Held:
    """The rows of namespaces that are searched again and again without a change in between. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: LRUCache[str, _Held] = LRUCache(MAX_BYTES, getsizeof=lambda held: held[1].unit.nbytes)
        self._searches: LRUCache[str, tuple[Hashable, int]] = LRUCache(1024)

    def get(self, namespace: str, state: Hashable) -> Rows | None:
        """Return the rows held of a namespace in this state."""
        with self._lock:
            held = self._held.get(namespace)
        return held[1] if held is not None and held[0] == state else None

    def is_due(self, namespace: str, state: Hashable) -> bool:
        """Count a search that found nothing held; tell whether it should read all rows, to be put here."""
        with self._lock:
            counted, count = self._searches.get(namespace, (state, 0))
            count = count + 1 if counted == state else 1
            self._searches[namespace] = state, count
        # one of many at the same time does, and another where others took the place
        return count % READ_EVERY == READ_FIRST

    def put(self, namespace: str, state: Hashable, rows: Rows) -> None:
        """Hold the rows of a namespace in a state, instead of those of earlier ones; at most `MAX_BYTES` of vectors."""
        with self._lock:
            self._held[namespace] = state, rows


def _lengths(vectors: Vector) -> Vector:
    """The length of each vector, as the last dimension; 1 for one of nothing but zeros."""
    squares = np.einsum("...i,...i->...", vectors, vectors, dtype=np.float64)[..., None]
    return np.sqrt(np.where(squares == 0, 1, squares)).astype(np.float32)
