"""The counts in a task's row: what its workers note, and now and then a count of all its files."""

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

#: Tasks that one sweep counts, and the seconds after which it begins no further count.
MAX_COUNTED = 1000
COUNT_SECONDS = 1.0
#: If counting a task takes longer, the task is closed by its last count and what its workers noted since.
LONG_SECONDS = 0.5

_SQL = load("index/counting")


class IndexCounts(NamedTuple):
    """What a search can find of an index.

    `found_files` are found by their words as they were listed. `held_files` have vanished, and their removal is held.
    Of all chunks, those outside the token bounds are neither in `vector_chunks` nor in `vectors_due`. `is_open`: a task
    works on the index, and the counts may be behind.
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
        """Of the chunks that get a vector, the share that has it."""
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
    """Add what workers noted to the rows of tasks."""
    connection.execute(_SQL["add_noted"], {"task_ids": list(task_ids)})


def note_progress(pool: Pool, task_id: UUID) -> None:
    """Bring a task's counts up to date, if they are due."""
    with pool.connection() as connection:
        bring_up_to_date(connection, task_id)


def bring_up_to_date(connection: Connection[Any], task_id: UUID) -> None:
    """Bring a task's counts up to date, if they are due and no other process does it."""
    if connection.execute(_SQL["due"], {"task_id": task_id}).fetchone() is not None:
        count(connection, [task_id])
    elif connection.execute(_SQL["lock_noted"], {"task_id": task_id}).fetchone() is not None:
        add_noted(connection, [task_id])


def distrust(pool: Pool, file_ids: Sequence[UUID]) -> None:
    """Have the open tasks of some files count all their files again: these changed, and nobody noted by how much.

    In a transaction of its own, because a transaction that ends a task locks its row before its files.
    """
    with pool.connection() as connection:
        connection.execute(_SQL["distrust"], {"file_ids": list(file_ids)})


def distrust_index(connection: Connection[Any], index_id: UUID) -> None:
    """Have all files of an index counted, by its newest task or the next one."""
    connection.execute(_SQL["distrust_index"], {"index_id": index_id})


def refresh_due(pool: Pool, limit: int = MAX_COUNTED) -> int:
    """Bring the counts of all due tasks up to date. Returns the number of tasks counted."""
    with pool.connection() as connection:
        due = _ids(connection, "all_due", {"limit": limit, "seconds": COUNT_SECONDS})
        if due:
            try:
                with connection.transaction():
                    count(connection, due)
            except LockNotAvailable:
                # what workers noted of one of them is locked: the others are counted
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
