"""Rows of namespaces at rest, in memory. Comparing vectors there takes a tenth of the time of reading them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from worker.vectors import Leg, RankedRow, Vector
from worker.vectors.rows import ranked

#: Bytes of vectors that a process caches: 170,000 rows of 384 dimensions.
MAX_BYTES = 256 * 1024**2
#: Number of hits that a process caches, of about 150 bytes each.
MAX_CACHED_HITS = 200_000
#: Rows fetched beyond the limit. They show whether rows at the limit are equal: then their ids decide, not chance.
TIES = 64
#: Difference up to which two similarities may be equal: 32-bit sums depend on a row's position.
EQUAL = 1e-5

T = TypeVar("T")
RowIds = NDArray[np.uint64]
#: A value that stays equal as long as nothing is written to a namespace; None during a write.
State = tuple[Hashable, ...] | None


@dataclass(frozen=True, slots=True)
class Rows:
    """All n rows of a namespace in one of its states.

    `row_ids` (n) are the store's row ids, ascending. `unit` (n, dimensions) are the vectors, each of length 1. The rows
    at the positions `absent` have no vector.
    """

    ids: list[str]
    row_ids: RowIds
    unit: Vector
    absent: NDArray[np.intp]

    def nearest(self, vector: Vector, limit: int) -> list[RankedRow]:
        """Return the `limit` rows nearest by cosine distance, ties ordered by id."""
        unit_vector = vector / _lengths(vector)
        similarity = self.unit @ unit_vector
        similarity[self.absent] = -np.inf
        count = min(limit, len(similarity) - len(self.absent))
        last = np.partition(similarity, -count)[-count] if count else np.inf
        nearest = np.flatnonzero(similarity >= last - EQUAL)
        distances = 1 - (self.unit[nearest].astype(np.float64) * unit_vector).sum(axis=1)
        return ranked(
            [self.ids[number] for number in nearest.tolist()], distances.tolist(), descending=False, limit=limit
        )

    def ids_at(self, row_ids: RowIds) -> list[str]:
        """Return the ids of the rows with these row ids of the store."""
        return [self.ids[number] for number in np.searchsorted(self.row_ids, row_ids).tolist()]


def unpack_vectors(column: Any) -> Vector:
    """Return a column of vectors as an array with one row each, even if there are no rows."""
    unpacked: Vector = column.combine_chunks().flatten().to_numpy().reshape(len(column), column.type.list_size)
    return unpacked


def rows(ids: list[str], row_ids: RowIds, vectors: Vector, *, embedded: NDArray[np.bool_]) -> Rows:
    """Prepare rows, given in any order, for searching. Vectors may have any length but 0."""
    order = np.argsort(row_ids)
    unit = vectors[order]
    # In place, because the vectors may take hundreds of megabytes.
    unit /= _lengths(unit)
    return Rows(
        ids=[ids[number] for number in order.tolist()],
        row_ids=row_ids[order],
        unit=unit,
        absent=np.flatnonzero(~embedded[order]),
    )


class Latest(Generic[T]):
    """A cache with one value per namespace, for its latest state. Evicts the least recently used. Thread-safe."""

    def __init__(self, maxsize: float, size: Callable[[T], float] = lambda _: 1) -> None:
        self._lock = Lock()
        self._cached: LRUCache[str, tuple[State, T]] = LRUCache(maxsize, getsizeof=lambda entry: size(entry[1]))

    def get(self, namespace: str, state: State) -> T | None:
        """Return the value for a namespace in this state; None while the namespace is not at rest."""
        with self._lock:
            entry = self._cached.get(namespace)
        return entry[1] if state is not None and entry is not None and entry[0] == state else None

    def put(self, namespace: str, state: State, value: T) -> None:
        """Store `value`, replacing that of an earlier state. Stores nothing while the namespace is not at rest."""
        with self._lock:
            if state is not None:
                self._cached[namespace] = state, value


class Rankings:
    """A cache of search results of namespaces at rest, because agents repeat the same queries. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cached: LRUCache[Hashable, list[RankedRow]] = LRUCache(
            MAX_CACHED_HITS, getsizeof=lambda ranking: len(ranking) + 1
        )

    def get(self, namespace: str, state: State, leg: Leg) -> list[RankedRow] | None:
        """Return what the leg found in this state. Callers must not change it."""
        with self._lock:
            return self._cached.get(_key(namespace, state, leg)) if _is_kept(state, leg) else None

    def put(self, namespace: str, state: State, leg: Leg, ranking: list[RankedRow]) -> None:
        """Cache what a leg found. Legs with filters, which may be long, are not cached."""
        if _is_kept(state, leg):
            with self._lock:
                self._cached[_key(namespace, state, leg)] = ranking


def _is_kept(state: State, leg: Leg) -> bool:
    return state is not None and not leg.conditions and leg.limit < MAX_CACHED_HITS


def _key(namespace: str, state: State, leg: Leg) -> Hashable:
    query = (leg.keywords or "").encode(errors="surrogatepass") if leg.vector is None else leg.vector.tobytes()
    field = leg.field if leg.vector is None else ""
    return namespace, state, field, leg.limit, blake2b(query, digest_size=16).digest()


def _lengths(vectors: Vector) -> Vector:
    """The length of each vector, as the last dimension; 1 for an all-zero vector."""
    squares = np.einsum("...i,...i->...", vectors, vectors, dtype=np.float64)[..., None]
    return np.sqrt(np.where(squares == 0, 1, squares)).astype(np.float32)
