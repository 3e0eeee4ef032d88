"""Compares the expected contents of a namespace with its actual ones, and records the differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, dict_row

from schemas.content.document import DocumentProperties
from schemas.errors import LeaseLost
from worker import reading
from worker.state.index import counting, index_switch, tasks
from worker.state.index.chunks import LATE_WRITE
from worker.state.index.embedding_cache import VectorOwner
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load
from worker.tokens.keywords import Keywords, keywords_of, with_properties
from worker.tokens.languages import DEFAULT

#: The sweep deletes a vector for the last time after `LATE_WRITE`; one that waits twice as long was missed.
OVERDUE = 2 * LATE_WRITE
#: Interval between sampled comparisons of an idle index's namespace: the time without a new task, within these bounds.
CHECK_EVERY = timedelta(hours=1)
CHECK_AT_LEAST_EVERY = timedelta(days=1)
#: Minimum time between checks that searches without results request.
CHECK_PAUSE = timedelta(minutes=1)
#: Maximum number of checks that one sweep starts.
MAX_CHECKS = 20

_INTERVALS = {"every": CHECK_EVERY, "longest": CHECK_AT_LEAST_EVERY}

_SQL = load("index/drift")

#: The expected attributes of a chunk in the vector store.
Attributes = dict[str, str | int | bool | None]


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """Counts of an index: live chunks, chunks that never became live, and tombstones that the sweep missed."""

    live: int
    unfinished: int
    overdue: int


def indexes(pool: Pool, tool_id: UUID | None) -> list[UUID]:
    """Return the index of a tool, or all indexes, by namespace."""
    return _ids(pool, "indexes", {"tool_id": tool_id})


def live_ids(pool: Pool, index_id: UUID, after: UUID | None, limit: int) -> list[UUID]:
    """Return the next ids, in ascending order, of live chunks that the vector store should have."""
    with pool.connection() as connection:
        connection.execute(_SQL["prefer_order"])
        values = {"index_id": index_id, "after": after, "limit": limit}
        return [id_ for (id_,) in connection.execute(_SQL["live_ids"], values)]


def still_live(pool: Pool, index_id: UUID, ids: Sequence[UUID], *, include_lost: bool) -> list[UUID]:
    """Return the ids that are live now; without `include_lost`, only those not yet marked as lost."""
    return _ids(pool, "still_live", {"index_id": index_id, "ids": list(ids), "include_lost": include_lost})


def unknown(pool: Pool, index_id: UUID, ids: Sequence[UUID]) -> list[UUID]:
    """Return the ids that have neither a chunk row, live or not, nor a tombstone."""
    return _ids(pool, "unknown", {"index_id": index_id, "ids": list(ids)})


def count_rows(pool: Pool, index_id: UUID) -> ChunkCounts:
    """Count the rows of an index."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(ChunkCounts))
        counts = cursor.execute(_SQL["count_rows"], {"index_id": index_id, "overdue": OVERDUE}).fetchone()
        return counts or ChunkCounts(0, 0, 0)


def count_wrong_files(pool: Pool, index_id: UUID) -> tuple[int, int]:
    """Count the files whose row has a wrong number of live chunks, and the indexed files without live chunks."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["count_files"], {"index_id": index_id}).fetchone()
        return (row[0], row[1]) if row else (0, 0)


def is_busy(pool: Pool, index_id: UUID) -> bool:
    """Return whether the index has an open task."""
    with pool.connection() as connection:
        return _is_busy(connection, index_id)


def mark_lost(pool: Pool, index_id: UUID, ids: Sequence[UUID], epoch: int | None) -> None:
    """Record that these live chunks have no vector. Raises `LeaseLost` as `_hold` does."""
    with pool.connection() as connection:
        _hold(connection, index_id, epoch)
        connection.execute(_SQL["mark_lost"], {"ids": list(ids)})


def take_up(pool: Pool, index_id: UUID, task_id: UUID, epoch: int) -> int:
    """Give files with lost vectors to a task. Returns their number. Raises `LeaseLost` as `_hold` does."""
    with pool.connection() as connection:
        _hold(connection, index_id, epoch)
        taken = connection.execute(_SQL["take_up"], {"index_id": index_id, "task_id": task_id}).rowcount
        if taken:
            counting.distrust_index(connection, index_id)
        return taken


def recount(pool: Pool, index_id: UUID) -> int:
    """Correct wrong counts of an idle index, and have those files read again. Returns their number.

    Raises `LeaseLost` as `_hold` does.
    """
    with pool.connection() as connection:
        _hold(connection, index_id, None)
        counting.distrust_index(connection, index_id)
        return connection.execute(_SQL["recount"], {"index_id": index_id}).rowcount


def bury_unfinished(pool: Pool, index_id: UUID) -> int:
    """Move rows of an idle index that never became live to the tombstones. Returns their number.

    Raises `LeaseLost` as `_hold` does.
    """
    with pool.connection() as connection:
        _hold(connection, index_id, None)
        return connection.execute(_SQL["bury_unfinished"], {"index_id": index_id}).rowcount


def overdue(pool: Pool, index_id: UUID, limit: int) -> list[UUID]:
    """Return tombstones that the sweep should have deleted."""
    return _ids(pool, "overdue", {"index_id": index_id, "overdue": OVERDUE, "limit": limit})


def count_unpaid(pool: Pool, index_id: UUID, owner: VectorOwner) -> int:
    """Count the texts of chunks marked as lost that the embedding cache does not hold."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["count_unpaid"], {**owner.values, "index_id": index_id}).fetchone()
        return int(row[0]) if row else 0


def start(pool: Pool, index_id: UUID) -> UUID | None:
    """Start a task that restores the lost data of an idle index, for its oldest tool.

    Returns None if there is nothing to do, or if the last run did not end well: the next one takes it up. The task does
    not list the folder, and takes up neither changes nor failed files. No message is sent: the sweep sends it within
    seconds. Raises `LeaseLost` as `_hold` does.
    """
    with pool.connection() as connection:
        index_switch.lock_index(connection, index_id)
        _hold(connection, index_id, None)
        owner = connection.execute(_SQL["owner"], {"index_id": index_id}).fetchone()
        if owner is None:
            return None
        started = tasks.repair(connection, tool_id=owner[0], index_id=index_id, folder_node_id=owner[1])
        return started.id if started else None


def read_expected(pool: Pool, index_id: UUID, ids: Sequence[UUID]) -> dict[UUID, Attributes]:
    """Return the expected attributes in the store for the ids that are live and whose files are idle."""
    with autocommit(pool) as connection:
        return _expected(connection, index_id, ids)


def _expected(connection: Connection[Any], index_id: UUID, ids: Sequence[UUID]) -> dict[UUID, Attributes]:
    cursor = connection.cursor(row_factory=dict_row)
    rows = cursor.execute(_SQL["expected"], {"index_id": index_id, "ids": list(ids)}).fetchall()
    return {row.pop("id"): row for row in rows}


def rewrite(
    pool: Pool, index_id: UUID, ids: Sequence[UUID]
) -> tuple[int, dict[UUID, Attributes], dict[UUID, Keywords]]:
    """Return a new generation, and the attributes and words that the store should have under it for these chunks.

    The index must be idle. A later claim has a greater generation, so its writes prevail. Raises `LeaseLost` as `_hold`
    does.
    """
    with pool.connection() as connection:
        _hold(connection, index_id, None)
        connection.execute(_SQL["lock_generations"])
        (generation,) = connection.execute(_SQL["next_generation"]).fetchone() or (0,)
        texts = connection.execute(_SQL["words"], {"ids": list(ids), "default": DEFAULT}).fetchall()
        words = {
            id_: keywords_of(
                with_properties(path, DocumentProperties(**stated or {})), context, reading.words(type_, text), language
            )
            for id_, path, stated, type_, context, text, language in texts
        }
        return generation, _expected(connection, index_id, ids), words


def cursor(pool: Pool, index_id: UUID) -> UUID | None:
    """Return the position where the last check of a namespace ended; None at its beginning."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["cursor"], {"index_id": index_id}).fetchone()
        return row[0] if row else None


def note_compared(pool: Pool, index_id: UUID, cursor: UUID | None = None) -> None:
    """Record that a namespace was compared now, up to an id; None: up to its end."""
    with pool.connection() as connection:
        connection.execute(_SQL["compared"], {"index_id": index_id, "cursor": cursor, **_INTERVALS})


def take_due(pool: Pool, limit: int = MAX_CHECKS) -> list[UUID]:
    """Return idle indexes whose namespaces were not compared for long, or for which a search requested it.

    Marks them as compared.
    """
    return _ids(pool, "due", {"limit": limit, **_INTERVALS})


def request_comparison(pool: Pool, index_id: UUID) -> bool:
    """Have the next sweep compare the namespace, if it should contain anything.

    Returns False if it was compared just now.
    """
    with pool.connection() as connection:
        return bool(
            connection.execute(_SQL["request_comparison"], {"index_id": index_id, "pause": CHECK_PAUSE}).rowcount
        )


def any_embedded(pool: Pool, index_id: UUID) -> bool:
    """Return whether the store should have a vector of the index. It is written before its chunk becomes live."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_embedded"], {"index_id": index_id})


def _hold(connection: Connection[Any], index_id: UUID, epoch: int | None) -> None:
    """Keep an index unchanged until the transaction ends, as long as nobody else works on it.

    Raises `LeaseLost` if its epoch is not `epoch`, or, if that is None, if a task is open.
    """
    row = connection.execute(_SQL["hold"], {"index_id": index_id}).fetchone()
    if row is None or (_is_busy(connection, index_id) if epoch is None else row[0] != epoch):
        raise LeaseLost("another task works on this index, or it was deleted")


def _is_busy(connection: Connection[Any], index_id: UUID) -> bool:
    return is_true(connection, _SQL["busy"], {"index_id": index_id})


def _ids(pool: Pool, query: str, values: dict[str, object]) -> list[UUID]:
    with autocommit(pool) as connection:
        return [row[0] for row in connection.execute(_SQL[query], values)]
