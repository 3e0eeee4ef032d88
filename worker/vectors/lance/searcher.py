"""Searches in LanceDB tables. The legs of a search run concurrently, on one state of the table.

Vectors use LanceDB's asynchronous interface. The synchronous one requests a table's schema repeatedly, with a thread
switch each time, which takes as long as the search itself. Words are searched in memory or by Lance itself, in the
caller's thread. Results are cached for the latest version of a table. A thread reads whole tables into memory, which
takes a second for 70,000 rows; until then LanceDB answers.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.compute as pc

from worker.vectors import Leg, Ranked, ties
from worker.vectors.lance import vector_index, word_search
from worker.vectors.lance.background import BackgroundReads
from worker.vectors.lance.crashes import OpenCalls
from worker.vectors.lance.filter_sql import is_in, where
from worker.vectors.lance.growing_rows import Changes, GrowingNamespaceRows, ListedRows
from worker.vectors.lance.indexes import FIELDS
from worker.vectors.lance.open_tables import OpenTable, OpenTables, TableSnapshot
from worker.vectors.lance.vector_cache import (
    MAX_BYTES,
    READ_SHARE,
    FilterCache,
    LatestPerNamespace,
    NamespaceRows,
    Passing,
    RankingCache,
    RowIds,
    SearchCounter,
    State,
    ranking_key,
    rows,
    unpack_vectors,
)
from worker.vectors.lance.word_memory import Read, WordMemories, WordMemory
from worker.vectors.rows import ranked

T = TypeVar("T")

#: Seconds after its last commit when a table counts as at rest. File clocks are too coarse to distinguish two commits.
REST_S = 1.0
#: Number of the call for a table that reads all rows: the first one of a second query by words and vectors.
FIRST_READ = 3
#: The columns of rows in memory, and those that tell rows apart.
COLUMNS, LISTED = ("id", "vector", "embedded", "generation"), ("id", "generation", "embedded")
#: The column that orders rows in memory, so that rows that pass a path filter are adjacent.
FOLDER = "file_id_path"
#: Maximum number of new rows that a search reads itself. Reading more, with their vectors, takes over 50 ms.
FEW_ROWS = 4_096


class Searcher:
    """Searches the tables of a directory. Threads may share one; a process opens its own after any fork."""

    def __init__(
        self,
        directory: Path,
        word_bytes: int,
        calls: OpenCalls,
        table_bytes: int | None = None,
        vector_bytes: int = MAX_BYTES,
    ) -> None:
        self._directory, self._calls = directory, calls
        self._vector_bytes = vector_bytes
        self._spaces = OpenTables(directory) if table_bytes is None else OpenTables(directory, table_bytes)
        self._searches = SearchCounter(FIRST_READ)
        self._rows_in_memory: LatestPerNamespace[GrowingNamespaceRows] = LatestPerNamespace(
            self._vector_bytes, lambda growing: growing.nbytes
        )
        self._background = BackgroundReads()
        self._word_memories = WordMemories(word_bytes, self._background)
        self._rankings = RankingCache()
        self._filtered = FilterCache()
        self._loop = _new_loop()
        threading.Thread(target=_run_until_stopped, args=(self._loop,), name="lancedb", daemon=True).start()
        # the thread and the descriptors of its loop end with this object
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop).atexit = False

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[Ranked]:
        """Return one ranking per leg, ties ordered by id. Raises LanceDB's errors."""
        number, opened = self._open_present(namespace)
        state = number, opened.version
        keys = [ranking_key(namespace, state, leg) for leg in legs]
        cached = [self._rankings.get(key) for key in keys]
        missing = [at for at, ranking in enumerate(cached) if ranking is None]
        found = self._search_legs(namespace, number, opened, [legs[at] for at in missing]) if missing else []
        for at, ranking in zip(missing, found, strict=True):
            self._rankings.put(keys[at], ranking)
        fresh = iter(found)
        return [next(fresh) if ranking is None else ranking for ranking in cached]

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._begin(coroutine).result()

    def _begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _open_present(self, namespace: str) -> tuple[int, TableSnapshot]:
        """Open the current state of the table. Also returns its number, which changes when the table is recreated."""
        latest = self._spaces.latest(namespace)
        if latest is not None and latest.rested is not None and latest.rested[0] == _at_rest(latest.path):
            # a table at rest has the same indexes
            return latest.number, latest.rested[1]
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces.put(namespace, self._run(self._spaces.connect(namespace)))
            self._forget_deleted()
        moment = _at_rest(space.path)
        opened = self._run(_open(space, namespace))
        space.rested = (moment, opened) if moment is not None else None
        return space.number, opened

    def _forget_deleted(self) -> None:
        """Release the rows of tables that were deleted."""
        self._rows_in_memory.drop_if(lambda namespace, _: not self._path(namespace).exists())
        self._word_memories.forget_released()

    def _path(self, namespace: str) -> Path:
        return self._directory / f"{namespace}.lance"

    def _search_legs(self, namespace: str, number: int, opened: TableSnapshot, legs: Sequence[Leg]) -> list[Ranked]:
        cached_rows, cached_words = self._in_memory(namespace, number, opened)
        conditions = [where(leg.conditions) for leg in legs]
        of_vectors = {each for leg, each in zip(legs, conditions, strict=True) if leg.vector is not None and each}
        narrow = self._narrow(number, opened, of_vectors) if cached_rows is None else {}
        # the rows in memory for the vector comparison of each leg; None: LanceDB compares
        in_memory = [narrow.get(condition, cached_rows) for condition in conditions]
        in_table = [leg for leg, held in zip(legs, in_memory, strict=True) if leg.vector is not None and held is None]
        # LanceDB searches vectors while this thread searches words
        nearest = self._begin(_nearest_rows(opened, in_table)) if in_table else None
        # usually all legs have the same filter
        passing = {each: self._passing(opened, each, cached_rows) for each in set(conditions)}
        answers = [
            _by_words(opened, leg, cached_rows, cached_words, passing[condition])
            if leg.vector is None
            else _by_vector(leg, held, passing[condition])
            for leg, condition, held in zip(legs, conditions, in_memory, strict=True)
        ]
        # Rank outside the event loop, which other searches need for their answers.
        fetched = iter(nearest.result() if nearest is not None else ())
        return [
            _nearest_of(leg, next(fetched)) if answer is None else answer
            for leg, answer in zip(legs, answers, strict=True)
        ]

    def _narrow(self, number: int, opened: TableSnapshot, conditions: Iterable[str]) -> dict[str, NamespaceRows]:
        """Return the passing rows of each condition that few rows pass."""
        narrow: dict[str, NamespaceRows] = {}
        most = vector_index.max_narrow_rows(opened.dataset)
        for condition in conditions:
            read = partial(word_search.row_ids, opened.dataset, condition, most + 1)
            row_ids = self._filtered.row_ids(number, opened.version, condition, read)
            if vector_index.is_narrow(row_ids, most):
                narrow[condition] = self._run(_read_prepared(opened.table.take_row_ids(row_ids.tolist())))
        return narrow

    def _passing(self, opened: TableSnapshot, condition: str, cached_rows: NamespaceRows | None) -> Passing | None:
        """Return which rows in memory pass a filter; None without rows or filter."""
        if cached_rows is None or not condition:
            return None
        read = partial(_passing_row_ids, opened, condition)
        return self._filtered.passing(opened.version, condition, cached_rows, read)

    def _in_memory(
        self, namespace: str, number: int, opened: TableSnapshot
    ) -> tuple[NamespaceRows | None, WordMemory | None]:
        """Return all rows of a table that is not too large, and their words, as far as they are in memory."""
        growing = self._rows(namespace, number, opened)
        if growing is None:
            return None, None
        version, cached_rows = growing.latest
        if version != opened.version:
            return None, None
        if not _has_words(opened):
            return cached_rows, None
        read = partial(self._read_words, namespace, opened)
        return cached_rows, self._word_memories.of(namespace, number, growing, cached_rows, read)

    def _read_words(
        self, namespace: str, opened: TableSnapshot, columns: Sequence[str], row_ids: RowIds | None
    ) -> Iterable[Any]:
        # also in a thread that outlives the search
        with self._calls.call(f"{namespace}.lance"):
            if row_ids is None:
                yield from word_search.texts(opened.dataset, columns)
            else:
                yield from self._run(_texts(opened.table, columns, row_ids))

    def _rows(self, namespace: str, number: int, opened: TableSnapshot) -> GrowingNamespaceRows | None:
        """Return the rows in memory, of this version of a table or another. Without any, begin a read that is due."""
        growing = self._rows_in_memory.get(namespace, (number,))
        if growing is not None:
            self._advance(namespace, number, opened, growing)
        elif self._searches.is_read_due(namespace, number):
            self._begin_read(namespace, number)
        return growing

    def _begin_read(self, namespace: str, number: int) -> None:
        self._background.begin(namespace, partial(self._read_rows, namespace, number))

    def _read_rows(self, namespace: str, number: int) -> None:
        """Read all rows of a table that is not too large, and their words. Older rows leave the memory first."""
        were_in_memory = self._rows_in_memory.drop(namespace)
        try:
            self._read_present(namespace, number)
        except BaseException:
            if were_in_memory:
                self._searches.forget(namespace)  # so that one of the next searches reads again
            raise

    def _read_present(self, namespace: str, number: int) -> None:
        with self._calls.call(f"{namespace}.lance"):
            present, opened = self._open_present(namespace)
            most = READ_SHARE * self._vector_bytes
            held = self._run(_read(opened.table, most)) if present == number else None
            if held is None:
                return
            growing = GrowingNamespaceRows(opened.version, held, self._vector_bytes)
            del held
            self._keep(namespace, number, growing)
            if _has_words(opened):
                read = partial(self._read_words, namespace, opened)
                self._word_memories.read(namespace, number, growing, growing.latest[1], read)

    def _keep(self, namespace: str, number: int, growing: GrowingNamespaceRows) -> None:
        """Keep rows in memory, unless their table was deleted while they were read."""
        self._rows_in_memory.put(namespace, (number,), growing)
        if not self._path(namespace).exists():
            self._forget_deleted()

    def _advance(self, namespace: str, number: int, opened: TableSnapshot, growing: GrowingNamespaceRows) -> None:
        """Update the rows in memory to a version of a table, by reading only rows that were written since.

        Many are read later. If too many rows in memory are deleted by now, all are read again.
        """
        if growing.latest[0] >= opened.version:
            return
        with growing.turn:
            version, before = growing.latest
            if version >= opened.version:
                return
            parts = word_search.fragments(opened.dataset)
            new = [parts[part] for part in parts.keys() - before.fragments()]
            live = sum(part.metadata.num_rows for part in parts.values())
            is_many = sum(part.metadata.num_rows for part in new) > FEW_ROWS
            add = partial(self._add_rows, namespace, number, opened, growing, before, new, live, is_many=is_many)
            if is_many:
                self._background.begin(namespace, partial(add, self._read_rows))
            else:
                add(self._begin_read)

    def _add_rows(
        self,
        namespace: str,
        number: int,
        opened: TableSnapshot,
        growing: GrowingNamespaceRows,
        before: NamespaceRows,
        parts: Sequence[Any],
        live: int,
        read_anew: Callable[[str, int], None],
        *,
        is_many: bool,
    ) -> None:
        """Add the rows of new `parts` to the rows in memory, or have all read anew if there is no room.

        Many may be rows that a compaction moved, and that are in memory already.
        """
        places, row_ids = np.empty(0, np.intp), np.empty(0, np.uint64)
        read_words: Read = partial(self._read_words, namespace, opened)
        with self._calls.call(f"{namespace}.lance"):
            if is_many:
                listed = ListedRows.of(word_search.rows_of(opened.dataset, LISTED, parts))
                places, row_ids = growing.unchanged(before, listed), listed.row_ids
                wanted = row_ids[places < 0].tolist()
                if not growing.has_room(before, live, len(wanted)):
                    read_anew(namespace, number)
                    return
                read = self._run(_read_prepared(opened.table.take_row_ids(wanted))) if wanted else before.none()
            elif parts:
                read = _prepared(word_search.rows_of(opened.dataset, COLUMNS, parts), ())
                # a third of the time that it takes by row ids
                read_words = partial(word_search.texts_of, opened.dataset, parts)
            else:
                read = before.none()
        moved = places >= 0
        every = partial(word_search.all_row_ids, opened.dataset)
        changes = Changes(places[moved], row_ids[moved], read, live, every)
        comparison = partial(self._word_memories.comparison, namespace, number, growing)
        have_same_words = comparison(read_words if _has_words(opened) else None)
        if growing.advance(before, opened.version, changes, have_same_words):
            self._keep(namespace, number, growing)  # it has grown
        else:
            read_anew(namespace, number)


def _has_words(opened: TableSnapshot) -> bool:
    return all(name in opened.columns for name in FIELDS)


async def _open(space: OpenTable, namespace: str) -> TableSnapshot:
    table = await space.connection.open_table(namespace)
    version = await table.version()
    dataset = word_search.dataset(space.path, version, space.word_session)
    return TableSnapshot(table, dataset, frozenset(dataset.schema.names), version)


def _at_rest(path: Path) -> State | None:
    """Return a value that stays equal until the next write; None during a write or just after one."""
    try:
        commits = (path / "_versions").stat()
    except FileNotFoundError:  # LanceDB reports the missing file
        return None
    return (commits.st_ino, commits.st_mtime_ns) if time.time() - commits.st_mtime > REST_S else None


def _new_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop with cheap wake-ups, as each call needs several. uvloop is not available on Windows."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _read(table: Any, most_bytes: float) -> NamespaceRows | None:
    """Read all rows of a table; None if their vectors have more bytes than allowed."""
    dimensions = (await table.schema()).field("vector").type.list_size
    if 4 * dimensions * await table.count_rows() > most_bytes:
        return None
    return await _read_prepared(table.query(), FOLDER)


async def _read_prepared(query: Any, *order: str) -> NamespaceRows:
    """Read the rows of a query, ordered by the columns `order`."""
    table_rows = await query.select([*COLUMNS, *order]).with_row_id().to_arrow()
    return await asyncio.to_thread(_prepared, table_rows, order)


async def _texts(table: Any, columns: Sequence[str], row_ids: RowIds) -> Iterable[Any]:
    rows_of_table = await table.take_row_ids(row_ids.tolist()).select([*columns]).with_row_id().to_arrow()
    batches: Iterable[Any] = rows_of_table.to_batches()
    return batches


def _prepared(table_rows: Any, order: Sequence[str]) -> NamespaceRows:
    vectors = unpack_vectors(table_rows["vector"])
    keys = [(name, "ascending") for name in order]
    at = pc.sort_indices(table_rows, keys).to_numpy() if keys else np.arange(len(vectors))
    columns = ("id", "_rowid", "embedded", "generation")
    ids, row_ids, embedded, generations = (table_rows[name].to_numpy()[at] for name in columns)
    # the copy may be modified
    return rows(ids.tolist(), row_ids, vectors[at], embedded=embedded, generations=generations)


def _by_words(
    opened: TableSnapshot,
    leg: Leg,
    cached_rows: NamespaceRows | None,
    cached_words: WordMemory | None,
    passing: Passing | None,
) -> Ranked:
    """Answer a keyword leg, from memory or from the table."""
    if cached_words is not None and cached_rows is not None:
        found = cached_words.found(leg, cached_rows, passing)
        if found is not None:
            return found
    answer = None
    if passing is not None and cached_rows is not None:
        passes = partial(_passes, cached_rows, passing)
        answer = word_search.found_among(opened.dataset, leg, float(passing.mean() if len(passing) else 0), passes)
    if answer is None:
        answer = word_search.found(opened.dataset, leg, with_ids=cached_rows is None)
    ids = answer["id"].to_pylist() if cached_rows is None else cached_rows.ids_at(answer["_rowid"].to_numpy())
    return ranked(ids, answer["_score"].to_pylist(), descending=True, limit=leg.limit)


def _passing_row_ids(opened: TableSnapshot, condition: str, among: RowIds | None) -> RowIds:
    """Find the rows that pass a filter, `among` some or all. Of many, the filter is cheaper for all."""
    if among is not None and len(among) <= FEW_ROWS:
        condition = f"{is_in('_rowid', among.tolist())} AND {condition}"
    row_ids: RowIds = word_search.row_ids(opened.dataset, condition)
    return row_ids


def _passes(rows: NamespaceRows, passing: Passing, row_ids: RowIds) -> Passing:
    return passing[rows.positions_of(row_ids)]


def _by_vector(leg: Leg, cached_rows: NamespaceRows | None, passing: Passing | None) -> Ranked | None:
    """Answer a vector leg from memory; None if LanceDB must search."""
    if cached_rows is None or leg.vector is None:
        return None
    return cached_rows.nearest(leg.vector, leg.limit, passing)


async def _nearest_rows(opened: TableSnapshot, legs: Sequence[Leg]) -> list[Any]:
    return await asyncio.gather(*(_nearest(opened.table, leg) for leg in legs))


async def _nearest(table: Any, leg: Leg) -> Any:
    """Find the nearest rows with a vector. It filters only if needed, as a filter costs more than the search."""

    async def nearest(*conditions: str) -> Any:
        condition = " AND ".join([*filter(None, [where(leg.conditions)]), *conditions])
        query = table.query().nearest_to(leg.vector).distance_type("cosine")
        query = vector_index.approximate(query, filtered=bool(condition))
        return await _fetch(query.where(condition) if condition else query, leg)

    answer = await nearest()
    return answer if all(answer["embedded"].to_pylist()) else await nearest("embedded")


async def _fetch(query: Any, leg: Leg) -> Any:
    """Fetch the nearest rows, including all that tie with the last one within the limit."""
    limit = ties.first_limit(leg.limit)
    while True:
        answer = await query.select(["_distance", "id", "embedded"]).limit(limit).to_arrow()
        more = ties.next_limit(leg.limit, limit, answer["_distance"].to_pylist())
        if more is None:
            return answer
        limit = more


def _nearest_of(leg: Leg, answer: Any) -> Ranked:
    return ranked(answer["id"].to_pylist(), answer["_distance"].to_pylist(), descending=False, limit=leg.limit)
