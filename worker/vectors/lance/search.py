"""Searches in LanceDB tables. The legs of a search run concurrently, on one state of the table.

They use the library's asynchronous interface. The synchronous one requests a table's schema repeatedly, with a thread
switch each time, which takes as long as the search itself. Results are cached while a table is at rest.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from lancedb.query import MatchQuery

from worker.vectors import Found, Leg
from worker.vectors.lance.filter_sql import where
from worker.vectors.lance.open_tables import Opened, Spaces
from worker.vectors.lance.vector_cache import MAX_BYTES, TIES, Latest, Rankings, Rows, State, rows, unpack_vectors
from worker.vectors.rows import ranked, words

T = TypeVar("T")

#: Seconds after its last commit when a table counts as at rest. File clocks are too coarse to tell two commits apart.
RESTS = 1.0
#: Number of tables whose searches are counted.
SEARCHED = 1024
#: The second search of a table at rest reads all rows; if the cache evicted them, every sixteenth later one does.
READ_FIRST, READ_EVERY = 2, 16


class Searcher:
    """Searches the tables of a directory. Threads may share one; a process opens its own after any fork."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._spaces = Spaces(directory)
        self._searches: Latest[Iterator[int]] = Latest(SEARCHED)
        self._held: Latest[Rows] = Latest(MAX_BYTES, lambda held: held.unit.nbytes)
        self._rankings = Rankings()
        self._loop = _new_loop()
        threading.Thread(target=self._loop.run_forever, name="lancedb", daemon=True).start()

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[list[Found]]:
        """One ranking per leg, ties ordered by id. Raises what LanceDB raises."""
        opened = self._opened(namespace)
        kept = [self._rankings.get(namespace, opened.state, leg) for leg in legs]
        missing = [leg for leg, ranking in zip(legs, kept, strict=True) if ranking is None]
        found = iter(self._found(namespace, opened, missing) if missing else ())
        return [next(found) if ranking is None else ranking for ranking in kept]

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _opened(self, namespace: str) -> Opened:
        """Open the table in its present state."""
        space = self._spaces.get(namespace) or self._spaces.put(namespace, self._run(self._spaces.connect(namespace)))
        state = _at_rest(space.path)
        if state is None or space.rested is None or space.rested[0] != state:
            space.rested = state, self._run(_open(space.connection, namespace, state))
        return space.rested[1]

    def _found(self, namespace: str, opened: Opened, legs: Sequence[Leg]) -> list[list[Found]]:
        held = self._rows(namespace, opened)
        in_memory = all(_is_held(leg, held) for leg in legs)
        answers = [None] * len(legs) if in_memory else self._run(_answers(opened, legs, held))
        # Rank outside the event loop, which other searches need for their answers.
        found = [_ranking(leg, answer, held) for leg, answer in zip(legs, answers, strict=True)]
        for leg, ranking in zip(legs, found, strict=True):
            self._rankings.put(namespace, opened.state, leg, ranking)
        return found

    def _rows(self, namespace: str, opened: Opened) -> Rows | None:
        """All rows of a table that is at rest and not too large."""
        held = self._held.get(namespace, opened.state)
        if held is None and self._is_due(namespace, opened.state):
            held = self._run(_read(opened.table))
            if held is not None:
                self._held.put(namespace, opened.state, held)
        return held

    def _is_due(self, namespace: str, state: State) -> bool:
        """Count a search and tell whether it should read all rows. Of concurrent searches only one does."""
        searches = self._searches.get(namespace, state) or count(1)
        self._searches.put(namespace, state, searches)
        return state is not None and next(searches) % READ_EVERY == READ_FIRST


async def _open(connection: Any, namespace: str, state: State) -> Opened:
    table = await connection.open_table(namespace)
    # A commit may happen in between, so the state includes the version: a later opening may see another one.
    return Opened(table, frozenset((await table.schema()).names), state and (*state, await table.version()))


def _at_rest(path: Path) -> State:
    """A value that stays equal as long as nothing is written; None during a write or just after one."""
    try:
        commits = (path / "_versions").stat()
    except FileNotFoundError:  # LanceDB reports what is missing
        return None
    return (commits.st_ino, commits.st_mtime_ns) if time.time() - commits.st_mtime > RESTS else None


def _new_loop() -> asyncio.AbstractEventLoop:
    """A loop with cheap wake-ups, of which each call needs several. uvloop is not available on Windows."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _read(table: Any) -> Rows | None:
    """All rows of a table; None if their vectors exceed `MAX_BYTES`."""
    dimensions = (await table.schema()).field("vector").type.list_size
    if 4 * dimensions * await table.count_rows() > MAX_BYTES:
        return None
    found = await table.query().select(["id", "vector", "embedded"]).with_row_id().to_arrow()
    return await asyncio.to_thread(_held, found)


def _held(found: Any) -> Rows:
    embedded = found["embedded"].to_numpy()
    return rows(found["id"].to_pylist(), found["_rowid"].to_numpy(), unpack_vectors(found["vector"]), embedded=embedded)


async def _answers(opened: Opened, legs: Sequence[Leg], held: Rows | None) -> list[Any]:
    return await asyncio.gather(*(_answer(opened, leg, held) for leg in legs))


async def _answer(opened: Opened, leg: Leg, held: Rows | None) -> Any:
    """The table's rows for a leg, and some beyond its limit; None if no query is needed or possible."""
    if leg.vector is not None:
        return None if _is_held(leg, held) else await _nearest(opened.table, leg)
    column = "code" if leg.field == "code" else "keywords"
    if column not in opened.columns:
        return None
    # A match query treats its text as plain words, even if it contains operators.
    query = opened.table.query().nearest_to_text(MatchQuery(words(leg), column))
    return await _fetched(query if held is None else query.with_row_id(), leg, ["_score", *([] if held else ["id"])])


def _is_held(leg: Leg, held: Rows | None) -> bool:
    return held is not None and leg.vector is not None and not leg.conditions


async def _nearest(table: Any, leg: Leg) -> Any:
    """The nearest rows with a vector. Filters only if needed, which is rare: a filter costs more than the search."""

    async def nearest(*more: str) -> Any:
        query = table.query().nearest_to(leg.vector).distance_type("cosine")
        return await _fetched(query, leg, ["id", "_distance", "embedded"], *more)

    found = await nearest()
    return found if all(found["embedded"].to_pylist()) else await nearest("embedded")


async def _fetched(query: Any, leg: Leg, columns: list[str], *more: str) -> Any:
    conditions = [*filter(None, [where(leg.conditions)]), *more]
    if conditions:
        query = query.where(" AND ".join(conditions))
    return await query.select(columns).limit(leg.limit + TIES).to_arrow()


def _ranking(leg: Leg, answer: Any, held: Rows | None) -> list[Found]:
    if answer is None:
        return held.nearest(leg.vector, leg.limit) if held is not None and leg.vector is not None else []
    by_words = leg.vector is None
    ids = held.at(answer["_rowid"].to_numpy()) if held is not None and by_words else answer["id"].to_pylist()
    values = answer["_score" if by_words else "_distance"].to_pylist()
    return ranked(ids, values, descending=by_words, limit=leg.limit)
