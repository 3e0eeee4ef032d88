"""The counts in a task's row: increments from its workers, and now and then a full count of its files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.errors import LockNotAvailable

from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Maximum number of tasks that one sweep counts, and the seconds after which it begins no further count.
MAX_COUNTED = 1000
COUNT_SECONDS = 1.0
#: Maximum time of a full count. A task that takes longer is closed by its last count plus its workers' increments.
LONG_SECONDS = 0.5

_SQL = load("index/counting")


class IndexCounts(NamedTuple):
    """The searchable part of an index.

    Words find `found_files` as they were listed. `held_files` have vanished, but their removal is held. Chunks outside
    the token bounds count in neither `vector_chunks` nor `vectors_due`. `is_open`: a task works on the index, so the
    counts may be behind.
    """

    found_files: int
    total_files: int
    held_files: int
    vector_chunks: int
    vectors_due: int
    total_chunks: int
    is_open: bool

    @property
    def vector_share(self) -> float:
        """The share of vectors written, of the chunks that get one."""
        if self.vectors_due == 0:
            return 0.0 if self.is_open and self.total_chunks == 0 else 1.0
        return self.vector_chunks / (self.vector_chunks + self.vectors_due)


#: The counts of an index without a task.
NO_COUNTS = IndexCounts(0, 0, 0, 0, 0, 0, is_open=True)


def counts(pool: Pool, index_id: UUID, *, include_lost: bool = False) -> IndexCounts:
    """Return the counts of an index by its newest task.

    With `include_lost`, files that only need their vectors written again count as found by words.
    """
    values = {"index_id": index_id, "include_lost": include_lost}
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["counts"], values).fetchone()
        return IndexCounts(*row) if row else NO_COUNTS


def count(connection: Connection[Any], task_ids: Sequence[UUID]) -> None:
    """Count the files of tasks into their rows."""
    connection.execute(_SQL["count"], {"task_ids": list(task_ids)})


def add_noted(connection: Connection[Any], task_ids: Sequence[UUID]) -> None:
    """Add the increments from workers to the rows of tasks."""
    connection.execute(_SQL["add_noted"], {"task_ids": list(task_ids)})


def note_progress(pool: Pool, task_id: UUID) -> None:
    """Update a task's counts, if they are due."""
    with pool.connection() as connection:
        bring_up_to_date(connection, task_id)


def bring_up_to_date(connection: Connection[Any], task_id: UUID) -> None:
    """Update a task's counts, if they are due and no other process does it."""
    if connection.execute(_SQL["due"], {"task_id": task_id}).fetchone() is not None:
        count(connection, [task_id])
    elif connection.execute(_SQL["lock_noted"], {"task_id": task_id}).fetchone() is not None:
        add_noted(connection, [task_id])


def distrust(pool: Pool, file_ids: Sequence[UUID]) -> None:
    """Have the open tasks of some files count all their files again, because the files changed by an unknown amount.

    In a transaction of its own, because a transaction that ends a task locks its row before its files.
    """
    with pool.connection() as connection:
        connection.execute(_SQL["distrust"], {"file_ids": list(file_ids)})


def distrust_index(connection: Connection[Any], index_id: UUID) -> None:
    """Have all files of an index counted, by its newest task or the next one."""
    connection.execute(_SQL["distrust_index"], {"index_id": index_id})


def refresh_due(pool: Pool, limit: int = MAX_COUNTED) -> int:
    """Update the counts of all due tasks. Returns the number of tasks counted."""
    with pool.connection() as connection:
        due = _ids(connection, "all_due", {"limit": limit, "seconds": COUNT_SECONDS})
        if due:
            try:
                with connection.transaction():
                    count(connection, due)
            except LockNotAvailable:
                # one task's increments are locked, so count the others
                _count_each(connection, due)
    with pool.connection() as connection:
        noted = _ids(connection, "lock_all_noted", {"limit": limit})
        if noted:
            add_noted(connection, noted)
    return len(due)


def _count_each(connection: Connection[Any], task_ids: Sequence[UUID]) -> None:
    until = time.monotonic() + COUNT_SECONDS
    for task_id in task_ids:
        with suppress(LockNotAvailable), connection.transaction():
            count(connection, [task_id])
        if time.monotonic() > until:
            return


def _ids(connection: Connection[Any], query: str, values: dict[str, object]) -> list[UUID]:
    return [id_ for (id_,) in connection.execute(_SQL[query], values)]
