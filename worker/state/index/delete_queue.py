"""Rows of `search_index_upkeep`: whose turn it is when vectors of many indexes are to be deleted.

The index that waits longest comes first. One whose upkeep failed is put off, for longer each time. One that has more to
delete than a round takes goes to the end of the queue. So neither keeps the others waiting.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from worker.state.postgres import Pool, load

#: The pause after a first failure, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=2), timedelta(minutes=5)

_SQL = load("index/delete_queue")


def put_off(pool: Pool, index_id: UUID) -> None:
    """The upkeep of an index failed: try it again after a pause."""
    _record(pool, "put_off", {"index_id": index_id, "first": FIRST_PAUSE, "longest": LONGEST_PAUSE})


def requeue(pool: Pool, index_id: UUID) -> None:
    """There is more to do for an index, once the others had their turn."""
    _record(pool, "requeue", {"index_id": index_id})


def done(pool: Pool, index_id: UUID) -> None:
    """All that was due for an index is done."""
    _record(pool, "done", {"index_id": index_id})


def _record(pool: Pool, query: str, values: dict[str, Any]) -> None:
    try:
        with pool.connection() as connection:
            connection.execute(_SQL[query], values)
    except psycopg.errors.ForeignKeyViolation:
        # another sweep purged the index meanwhile
        return
