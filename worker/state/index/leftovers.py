"""Cleans up after ended tasks. The sweep returns files and deletes listings in parts: there may be millions of rows."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.errors import LockNotAvailable

from worker.state.index import counting, index_switch
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Maximum number of open files that one transaction returns, and of listed files that it deletes.
ROWS = 5000
#: Maximum seconds that one sweep spends.
TIDY_SECONDS = 1.0
#: Time for which the row of a removed file is kept.
REMOVED_KEPT = timedelta(days=30)
#: Less than the id of any file.
NO_ID = UUID(int=0)

_SQL = load("index/leftovers")


def return_files(connection: Connection[Any], index_id: UUID, after: UUID = NO_ID) -> UUID | None:
    """Return the next open files of an index to their live content. Returns the last one; None if none is left.

    Files that workers hold are always included. Requires the index locked, and its workers shut out.
    """
    values = {"index_id": index_id, "after": after, "rows": ROWS}
    held = [id_ for (id_,) in connection.execute(_SQL["held_files"], values)]
    waiting = [id_ for (id_,) in connection.execute(_SQL["waiting_files"], values)]
    for query in ("return_files", "bury_unfinished"):
        connection.execute(_SQL[query], {"files": held + waiting})
    return waiting[-1] if len(waiting) == ROWS else None


def leave(connection: Connection[Any], task_id: UUID, returned: UUID | None) -> None:
    """Delete an ended task's listing. Leaves the rest to the sweep, and the open files after the last `returned`."""
    if not _forget_listing(connection, task_id) or returned:
        connection.execute(_SQL["leave"], {"task_id": task_id, "after": returned})


def _forget_listing(connection: Connection[Any], task_id: UUID) -> bool:
    """Delete some of the rows. Returns whether all are gone."""
    return connection.execute(_SQL["forget_listing"], {"task_id": task_id, "rows": ROWS}).rowcount < ROWS


def tidy(pool: Pool, seconds: float = TIDY_SECONDS) -> int:
    """Clean up after tasks for about `seconds`. Returns the number of transactions."""
    until, steps = time.monotonic() + seconds, 0
    with autocommit(pool) as connection:
        left = connection.execute(_SQL["left"]).fetchall()
    for task_id, index_id in left:
        more = True
        while more and time.monotonic() < until:
            # the next round retries rows that other transactions lock
            more = False
            with suppress(LockNotAvailable), pool.connection() as connection:
                more = _tidy(connection, task_id, index_id)
            steps += 1
    return steps


def _tidy(connection: Connection[Any], task_id: UUID, index_id: UUID) -> bool:
    """Return or delete some rows of an ended task. Returns whether to go on."""
    if not index_switch.try_lock_rows(connection, index_id):
        return False
    row = connection.execute(_SQL["hold"], {"task_id": task_id}).fetchone()
    if row is None:
        return False
    after, is_newest = row
    if after is not None:
        # a later task takes up all open files itself
        returned = return_files(connection, index_id, after) if is_newest else None
        if is_newest and returned is None:
            counting.count(connection, [task_id])
        connection.execute(_SQL["leave"], {"task_id": task_id, "after": returned})
    elif _forget_listing(connection, task_id):
        connection.execute(_SQL["tidied"], {"task_id": task_id})
        return False
    return True


def forget_removed(pool: Pool, index_id: UUID) -> int:
    """Delete the rows of files removed long ago: a folder may have new names every day. Returns their number."""
    values = {"index_id": index_id, "kept": REMOVED_KEPT, "rows": ROWS}
    forgotten, more = 0, True
    while more:
        with pool.connection() as connection:
            count = connection.execute(_SQL["forget_removed"], values).rowcount
        forgotten, more = forgotten + count, count == ROWS
    return forgotten
