"""Searches of LanceDB's tables: the legs of one side by side, in one state of the table.

Through the library's asynchronous interface: its other one asks for a table's schema again and again, a change of
threads each time, which takes as long as the search itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import lancedb
from lancedb.query import MatchQuery

from worker.vectors import Found, Leg
from worker.vectors.lance.held import MAX_BYTES, TIES, Held, Rows, rows
from worker.vectors.lance.sql import where
from worker.vectors.rows import ranked, words

T = TypeVar("T")


class Searcher:
    """Searches the tables of a directory. Threads may share one; a process opens its own after any fork."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held = Held()
        self._loop = _new_loop()
        threading.Thread(target=self._loop.run_forever, name="lancedb", daemon=True).start()
        self._connection = self._run(lancedb.connect_async(directory))

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[list[Found]]:
        """One ranking per leg, equal values by id. Raises what LanceDB raises."""
        held, answers = self._run(self._answers(namespace, legs))
        # not in the loop, where the answers of other searches wait
        return [_ranking(leg, answer, held) for leg, answer in zip(legs, answers, strict=True)]

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _answers(self, namespace: str, legs: Sequence[Leg]) -> tuple[Rows | None, list[Any]]:
        """The rows held of the table as it is now, and what it answers to each leg."""
        table = await self._connection.open_table(namespace)
        held = await self._at_rest(namespace, table)
        return held, await asyncio.gather(*(_answer(table, leg, held) for leg in legs))

    async def _at_rest(self, namespace: str, table: Any) -> Rows | None:
        """All rows of a table that rests and is not too large."""
        state = await self._state(namespace, table)
        held = self._held.get(namespace, state)
        if held is None and self._held.is_due(namespace, state) and await _size(table) <= MAX_BYTES:
            held = await _all_rows(table)
            self._held.put(namespace, state, held)
        return held

    async def _state(self, namespace: str, table: Any) -> Hashable:
        """Equal as long as nothing was written: a table that was made again begins with its versions anew."""
        made = (self._directory / f"{namespace}.lance").stat()
        return made.st_ino, made.st_ctime_ns, await table.version()


def _new_loop() -> asyncio.AbstractEventLoop:
    """A loop that is woken cheaply, as it is several times for each call; there is none such for Windows."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _size(table: Any) -> int:
    """Bytes of all vectors."""
    dimensions: int = (await table.schema()).field("vector").type.list_size
    count: int = await table.count_rows()
    return 4 * dimensions * count


async def _all_rows(table: Any) -> Rows:
    found = await table.query().select(["id", "vector", "embedded"]).with_row_id().to_arrow()
    return await asyncio.to_thread(_held, found, frozenset((await table.schema()).names))


def _held(found: Any, columns: frozenset[str]) -> Rows:
    vectors = found["vector"].combine_chunks().flatten().to_numpy().reshape(len(found), -1)
    embedded = found["embedded"].to_numpy()
    return rows(found["id"].to_pylist(), found["_rowid"].to_numpy(), vectors, embedded=embedded, columns=columns)


async def _answer(table: Any, leg: Leg, held: Rows | None) -> Any:
    """The table's rows for a leg and some beyond its limit; None where it need not or cannot be asked."""
    if leg.vector is not None:
        return None if held is not None and not leg.conditions else await _nearest(table, leg)
    column = "code" if leg.field == "code" else "keywords"
    if column not in (held.columns if held is not None else (await table.schema()).names):
        return None
    # a match query takes its text as words only, whatever operators stand in it
    query = table.query().nearest_to_text(MatchQuery(words(leg), column))
    return await _fetched(query if held is None else query.with_row_id(), leg, ["_score", *([] if held else ["id"])])


async def _nearest(table: Any, leg: Leg) -> Any:
    """The nearest rows that have a vector. A filter takes longer than the search, and hardly ever leaves a row out."""

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
    return ranked(zip(ids, values, strict=True), descending=by_words, limit=leg.limit)
