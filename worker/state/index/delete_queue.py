"""Rows of `search_index_upkeep`: the order in which indexes have vectors deleted.

The longest-waiting index comes first. An index whose upkeep failed is delayed, for longer each time. An index with more
to delete than fits a round moves to the end of the queue. So neither delays the others.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import psycopg

from worker.state.pool import Pool
from worker.state.queries import load

#: The pause of an index after its first failed delete; each further failure doubles it.
FIRST_PAUSE = timedelta(seconds=2)
#: The longest pause of an index whose deletes fail.
LONGEST_PAUSE = timedelta(minutes=5)

_SQL = load("index/delete_queue")


def postpone(pool: Pool, index_id: UUID) -> None:
    """Record that the upkeep of an index failed, to try it again after a pause."""
    _record(pool, "postpone", {"index_id": index_id, "first": FIRST_PAUSE, "longest": LONGEST_PAUSE})


def requeue(pool: Pool, index_id: UUID) -> None:
    """Record that an index has more to do, after the others had their turn."""
    _record(pool, "requeue", {"index_id": index_id})


def note_done(pool: Pool, index_id: UUID) -> None:
    """Record that everything due for an index is done."""
    _record(pool, "done", {"index_id": index_id})


def _record(pool: Pool, query: str, values: dict[str, object]) -> None:
    try:
        with pool.connection() as connection:
            connection.execute(_SQL[query], values)
    except (psycopg.errors.ForeignKeyViolation, psycopg.errors.LockNotAvailable):
        # another sweep has purged the index, or another transaction locks it
        return
