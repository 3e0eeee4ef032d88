"""Rows of namespaces in memory. Comparing vectors there takes a tenth of the time of reading them."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import count, pairwise, starmap
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from worker.vectors import Leg, Ranked, Vector
from worker.vectors.lance.filter_sql import MAX_KEPT, where
from worker.vectors.lance.largest import kth_largest
from worker.vectors.lance.rough_rows import RoughRows
from worker.vectors.rows import ranked
from worker.vectors.ties import EQUAL

#: Maximum bytes of vectors that a process caches: 170,000 rows of 384 dimensions.
MAX_BYTES = 256 * 1024**2
#: Number of hits that a process caches, of about 150 bytes each.
MAX_CACHED_HITS = 200_000
#: Maximum bytes of a process's filter cache, which takes one byte for each row in memory.
MAX_FILTER_BYTES = 16 * 1024**2
#: Number of tables whose searches are counted.
MAX_COUNTED_TABLES = 1024
#: Calls after which a table that others evicted from memory is read again. A query makes one or two.
SEARCHES_PER_READ = 32
#: Minimum numbers of vectors for each thread: with fewer, a second thread costs more than it saves.
NUMBERS_PER_THREAD = 2**21
#: Maximum number of threads that compare the vectors of one search. More would wait for memory bandwidth.
MAX_THREADS = min(os.cpu_count() or 1, 4)
#: Rows whose exact distances are computed at a time.
EXACT_ROWS = 4_096
#: Mean rows per stretch from which each stretch is compared separately: that costs as much as 30 rows.
STRETCH_ROWS = 32
#: Maximum share of rows in shorter stretches that are copied, so that the others need not be compared. So many rows are
#: copied at a time: the processor's cache holds them, and new memory would cost as much as the comparison.
FEW_SHARE, COPIED_ROWS = 0.45, 512
#: Shares of the rows from which most are ruled out first: in long stretches, and in shorter ones.
STRETCHED_SHARE, SCATTERED_SHARE = 0.35, 0.08
#: Share of the bytes for vectors above which a table is not read. Each edit needs free space, or else a new read.
READ_SHARE = 0.9
#: Bits of a row id below the number of its fragment.
FRAGMENT_SHIFT = np.uint64(32)
#: Number of letters of an id that fit a number.
ID_LETTERS = 8
#: Assumed bytes of a cached filter without its row ids.
_ENTRY_BYTES = 512

T = TypeVar("T")
#: The store's own ids of rows.
RowIds = NDArray[np.uint64]
#: The first letters of rows' ids, by position.
IdStarts = NDArray[np.uint64]
#: Positions of rows in memory.
Positions = NDArray[np.intp]
#: Mask of the rows in memory that pass a filter, by position.
Passing = NDArray[np.bool_]
#: A value that stays equal until a namespace is written.
State = tuple[Hashable, ...]

_threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="nearest")
#: Held by the search that uses `_threads`.
_has_threads = Lock()


@dataclass(frozen=True, slots=True, eq=False)
class NamespaceRows:
    """The n live rows of a namespace in one of its states. Rows of later states share its memory.

    `row_ids` (n) are the store's row ids, ascending. `positions` (n) are the places of the rows in `ids`, `id_starts`
    and `unit`, the vectors with length 1. `absent` are the positions of rows that no vector finds: deleted rows, rows
    without a vector, and rows that do not pass a filter. `rough` rules out rows before these are compared. States of
    the same `lineage` have the same row at each position that both have, but it may get a vector and other attributes.
    `generations` are the rows' by position, and `written` the versions in which later states got them.
    """

    ids: list[str]
    id_starts: IdStarts
    generations: NDArray[np.int64]
    unit: Vector
    row_ids: RowIds
    positions: Positions
    absent: Positions
    written: NDArray[np.int64]
    rough: RoughRows | None = None
    lineage: object = field(default_factory=object)

    def nearest(self, vector: Vector, limit: int, passing: Passing | None = None) -> Ranked:
        """Return the `limit` rows nearest by cosine distance among the `passing` ones, ties ordered by id."""
        unit_vector = vector / _lengths(vector)
        takes = np.ones(len(self.unit), np.bool_) if passing is None else passing.copy()
        takes[self.absent] = False
        found = np.flatnonzero(takes)
        share = STRETCHED_SHARE if _are_in_stretches(found, self._begins(found)) else SCATTERED_SHARE
        if self.rough is not None and len(found) >= share * len(takes):
            found = np.flatnonzero(self.rough.possible(takes, unit_vector, limit))
        similarity = self._similarity(found, unit_vector)
        count = min(limit, len(found))
        last = kth_largest(similarity, count) if count else np.inf
        nearest = found[similarity >= last - EQUAL]
        distances = np.empty(len(nearest))
        # equal texts have equal vectors, so there may be many
        for start in range(0, len(nearest), EXACT_ROWS):
            part = slice(start, start + EXACT_ROWS)
            distances[part] = 1 - (self.unit[nearest[part]].astype(np.float64) * unit_vector).sum(axis=1)
        return self.ranked(nearest, distances, limit, descending=False)

    def _similarity(self, found: Positions, unit_vector: Vector) -> Vector:
        """Return the cosine of each of the rows at `found`, which ascend."""
        begins = self._begins(found)
        if _are_in_stretches(found, begins):
            return _products(self.unit, unit_vector, found, begins)
        if len(found) < FEW_SHARE * len(self.unit):
            return _products(self.unit, unit_vector, found, None)
        return _products(self.unit, unit_vector, np.arange(len(self.unit)), np.zeros(1, np.intp))[found]

    def _begins(self, found: Positions) -> Positions:
        """Return where stretches of adjacent rows begin, among those at `found`, which ascend."""
        are_all = 0 < len(found) == len(self.unit)
        return np.zeros(1, np.intp) if are_all else np.flatnonzero(np.diff(found, prepend=-2) != 1)

    def ranked(self, found: Positions, values: NDArray[np.float64], limit: int, *, descending: bool) -> Ranked:
        """Return the best `limit` of the rows found, by their values, ties ordered by id.

        Many rows may tie with the last one. Their whole ids are compared only if their first letters are equal.
        """
        if 0 < limit < len(found):
            gains = values if descending else -values
            last = kth_largest(gains, limit)
            better, equal = np.flatnonzero(gains > last), np.flatnonzero(gains == last)
            # the bits are inverted, so that the first id has the largest number
            starts = ~self.id_starts[found[equal]]
            equal = equal[starts >= kth_largest(starts, limit - len(better))]
            chosen = np.concatenate([better, equal])
            found, values = found[chosen], values[chosen]
        return ranked([self.ids[at] for at in found.tolist()], values.tolist(), descending=descending, limit=limit)

    def ids_at(self, row_ids: RowIds) -> list[str]:
        """Return the ids of the rows with these row ids of the store."""
        return [self.ids[number] for number in self.positions_of(row_ids).tolist()]

    def positions_of(self, row_ids: RowIds) -> Positions:
        """Return the positions of the rows with these row ids of the store."""
        return self.positions[np.searchsorted(self.row_ids, row_ids)]

    def row_ids_at(self, positions: Positions) -> RowIds:
        """Return the store's row ids of live rows at these positions."""
        row_ids = np.empty(len(self.unit), np.uint64)
        row_ids[self.positions] = self.row_ids
        return row_ids[positions]

    def are_at(self, row_ids: RowIds) -> Passing:
        """Return a mask of the rows with these row ids of the store, by position."""
        passing = np.zeros(len(self.unit), np.bool_)
        passing[self.positions_of(row_ids)] = True
        return passing

    def none(self) -> NamespaceRows:
        """Return no rows, of the same dimensions."""
        nothing = np.empty(0, np.bool_)
        return rows([], nothing.astype(np.uint64), self.unit[:0].copy(), embedded=nothing)

    def fragments(self) -> set[int]:
        """Return the numbers of the store's fragments that have these rows. A row id begins with its fragment's."""
        numbers = self.row_ids >> FRAGMENT_SHIFT
        return {*numbers[np.flatnonzero(np.diff(numbers, prepend=numbers[:1] + 1))].tolist()}


def unpack_vectors(column: Any) -> Vector:
    """Return a column of vectors as an array with one row each, even if there are no rows."""
    unpacked: Vector = column.combine_chunks().flatten().to_numpy().reshape(len(column), column.type.list_size)
    return unpacked


def rows(
    ids: list[str],
    row_ids: RowIds,
    vectors: Vector,
    *,
    embedded: NDArray[np.bool_],
    generations: NDArray[np.int64] | None = None,
) -> NamespaceRows:
    """Prepare rows, in any order, for searching. Normalises the vectors in place; their lengths must not be 0.

    Without `generations` all are 0.
    """
    order = np.argsort(row_ids)
    vectors /= _lengths(vectors)
    generations = np.zeros(len(ids), np.int64) if generations is None else generations
    absent, written = np.flatnonzero(~embedded), np.zeros(len(ids), np.int64)
    return NamespaceRows(ids, id_starts(ids), generations, vectors, row_ids[order], order, absent, written)


def id_starts(ids: Sequence[str]) -> IdStarts:
    """Return the first letters of each id as a number, so that the numbers have the order of the ids."""
    letters = np.array(ids, f"S{ID_LETTERS}") if ids else np.empty(0, f"S{ID_LETTERS}")
    return letters.view(f">u{ID_LETTERS}").astype(np.uint64)


class LatestPerNamespace(Generic[T]):
    """A cache with one value per namespace, for its latest state. Evicts the least recently used. Thread-safe."""

    def __init__(self, maxsize: float, size: Callable[[T], float] = lambda _: 1) -> None:
        self._lock = Lock()
        self._cached: LRUCache[str, tuple[State, T]] = LRUCache(maxsize, getsizeof=lambda entry: size(entry[1]))

    def get(self, namespace: str, state: State) -> T | None:
        """Return the value for a namespace in this state, if it is known."""
        with self._lock:
            entry = self._cached.get(namespace)
        return entry[1] if entry is not None and entry[0] == state else None

    def put(self, namespace: str, state: State, value: T) -> None:
        """Store `value`, replacing the value of an earlier state."""
        with self._lock:
            self._cached[namespace] = state, value

    def drop(self, namespace: str) -> bool:
        """Remove a namespace. Returns whether it was known."""
        with self._lock:
            return self._cached.pop(namespace, None) is not None

    def drop_if(self, is_over: Callable[[str, T], bool]) -> None:
        """Remove the namespaces for which a predicate of name and value holds."""
        with self._lock:
            for namespace in [name for name, (_, value) in self._cached.items() if is_over(name, value)]:
                del self._cached[namespace]


class SearchCounter:
    """Counts the searches of each table, and decides which of them read it into memory. Thread-safe."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._counts: LatestPerNamespace[Iterator[int]] = LatestPerNamespace(MAX_COUNTED_TABLES)

    def is_read_due(self, namespace: str, number: int) -> bool:
        """Count a search and return whether it should read. Of concurrent searches only one does."""
        counts = self._counts.get(namespace, (number,)) or count(1)
        self._counts.put(namespace, (number,), counts)
        return next(counts) % SEARCHES_PER_READ == self._first

    def forget(self, namespace: str) -> None:
        """Restart the count of a table."""
        self._counts.drop(namespace)


class RankingCache:
    """A cache of search results, because agents repeat the same queries. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cached: LRUCache[Hashable, Ranked] = LRUCache(MAX_CACHED_HITS, getsizeof=lambda ranking: len(ranking) + 1)

    def get(self, key: Hashable) -> Ranked | None:
        """Return the cached result of a leg by its `ranking_key`. Callers must not modify it."""
        with self._lock:
            return self._cached.get(key)

    def put(self, key: Hashable, ranking: Ranked) -> None:
        """Cache the result of a leg by its `ranking_key`."""
        if len(ranking) < self._cached.maxsize:
            with self._lock:
                self._cached[key] = ranking


class FilterCache:
    """A cache of the rows that pass filters, because agents search the same folders again and again. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: What passes, and the version of the table in which that was found.
        self._cached: LRUCache[Hashable, tuple[int, NDArray[Any]]] = LRUCache(
            MAX_FILTER_BYTES, getsizeof=lambda kept: kept[1].nbytes + _ENTRY_BYTES
        )

    def row_ids(self, number: int, version: int, condition: str, read: Callable[[], RowIds]) -> RowIds:
        """Return the row ids that pass a condition in this version; `read` finds them. Callers must not modify them."""
        key = number, _condition_digest(condition)
        of_version, found = self._get(key)
        return self._put(key, version, read()) if found is None or of_version != version else found

    def passing(
        self, version: int, condition: str, rows: NamespaceRows, read: Callable[[RowIds | None], RowIds]
    ) -> Passing:
        """Return a mask of the rows that pass a condition. Callers must not modify it.

        `read` finds those rows among some, or among all (None). A later version reads only rows written since. For an
        earlier one all are read: the mask may lack rows that were deleted since.
        """
        key = rows.lineage, _condition_digest(condition)
        of_version, known = self._get(key)
        if known is None or of_version > version:
            return self._put(key, version, rows.are_at(read(None)))
        if of_version == version:
            return known
        is_new = rows.written > of_version
        new = rows.row_ids[is_new[rows.positions]]
        passing = rows.are_at(read(new) if len(new) else new)
        passing[: len(known)] |= known & ~is_new[: len(known)]
        return self._put(key, version, passing)

    def _get(self, key: Hashable) -> tuple[int, NDArray[Any] | None]:
        with self._lock:
            return self._cached.get(key, (0, None))

    def _put(self, key: Hashable, version: int, passing: NDArray[Any]) -> NDArray[Any]:
        if passing.nbytes + _ENTRY_BYTES <= MAX_FILTER_BYTES:
            with self._lock:
                self._cached[key] = version, passing
        return passing


def ranking_key(namespace: str, state: State, leg: Leg) -> Hashable:
    """Return the cache key of a leg, equal for two legs with the same result in this state of a namespace."""
    query = _digest(leg.keywords or "") if leg.vector is None else _digest(leg.vector.tobytes())
    words = (leg.field, leg.phrase, leg.languages) if leg.vector is None else None
    return namespace, state, words, leg.limit, query, _condition_digest(where(leg.conditions))


def _digest(content: str | bytes) -> bytes:
    """Return a short digest of a content that may be long."""
    encoded = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    return blake2b(encoded, digest_size=16).digest()


# a condition that names thousands of files is long, and each leg of a query has it
_condition_digest = lru_cache(MAX_KEPT)(_digest)


def _products(unit: Vector, vector: Vector, found: Positions, begins: Positions | None) -> Vector:
    """Return the product of a vector with each row at `found`; stretches of adjacent rows start at `begins`, if given.

    Threads share many rows, unless another search has the threads.
    """
    parts = min(MAX_THREADS, len(found) * unit.shape[1] // NUMBERS_PER_THREAD)
    if parts <= 1 or not _has_threads.acquire(blocking=False):
        return _multiplied(unit, vector, found, begins, np.empty(len(found), np.float32))
    try:
        products = np.empty(len(found), np.float32)
        bounds = [len(found) * part // parts for part in range(parts + 1)]
        shares = [
            (found[part], _begins_within(begins, part), products[part]) for part in starmap(slice, pairwise(bounds))
        ]
        running = [_threads.submit(_multiplied, unit, vector, *share) for share in shares[1:]]
        _multiplied(unit, vector, *shares[0])
        for each in running:
            each.result()
    finally:
        _has_threads.release()
    return products


def _are_in_stretches(found: Positions, begins: Positions) -> bool:
    """Return whether stretches are so long that each is compared separately."""
    return len(begins) * STRETCH_ROWS <= len(found)


def _begins_within(begins: Positions | None, part: slice) -> Positions | None:
    """Return the starts of stretches within a part, whose first row starts one."""
    if begins is None:
        return None
    within = begins[(begins > part.start) & (begins < part.stop)]
    return np.concatenate([[0], within - part.start])


def _multiplied(unit: Vector, vector: Vector, found: Positions, begins: Positions | None, products: Vector) -> Vector:
    """Compute the products of a vector with the rows at `found` in place."""
    if begins is None:
        copied = np.empty((COPIED_ROWS, unit.shape[1]), np.float32)
        for start in range(0, len(found), COPIED_ROWS):
            part = found[start : start + COPIED_ROWS]
            # another mode would copy twice
            few = np.take(unit, part, axis=0, out=copied[: len(part)], mode="clip")
            np.matmul(few, vector, out=products[start : start + len(part)])
        return products
    for start, end in pairwise([*begins.tolist(), len(found)]):
        first = int(found[start])
        np.matmul(unit[first : first + end - start], vector, out=products[start:end])
    return products


def _lengths(vectors: Vector) -> Vector:
    """Return the length of each vector, as the last dimension; 1 for an all-zero vector."""
    squares = np.einsum("...i,...i->...", vectors, vectors, dtype=np.float64)[..., None]
    return np.sqrt(np.where(squares == 0, 1, squares)).astype(np.float32)
