"""Notes in the row of an open task: faults, tokens, and the reason for waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row

from schemas.errors import LeaseLost
from worker.state.index import counting
from worker.state.index.tasks import BUSY, LEASE, STALLED_AFTER
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

_SQL = load("index/tasks")


@dataclass(frozen=True, slots=True)
class StalledTask:
    """An open task without a worker, with the known facts about the reason."""

    id: UUID
    tool_id: UUID
    index_id: UUID
    status: str
    listing: bool
    plan_until: datetime | None
    sent_at: datetime | None
    counted_at: datetime | None


def note_fault(pool: Pool, task_id: UUID, fault: str) -> None:
    """Keep the unexpected exception of a listing, as the reason with which the task may end."""
    with pool.connection() as connection:
        connection.execute(_SQL["note_fault"], {"task_id": task_id, "fault": fault})


def count_fault(pool: Pool, task_id: UUID, fault: str) -> int:
    """Count an unexpected exception of an index slice, at most once per lease.

    Returns the number of exceptions since a file ended.
    """
    with pool.connection() as connection:
        values = {"task_id": task_id, "fault": fault, "rest": LEASE}
        row = connection.execute(_SQL["count_fault"], values).fetchone()
        return row[0] if row else 0


def spend(pool: Pool, task_id: UUID, tokens: int) -> int:
    """Count tokens towards a task's limit, unless they exceed the rest. Returns the rest from before.

    Raises `LeaseLost` if the task has ended.
    """
    with pool.connection() as connection:
        row = connection.execute(_SQL["spend"], {"task_id": task_id, "tokens": tokens}).fetchone()
    if row is None:
        raise LeaseLost("the task has ended")
    return int(row[0])


def give_back(pool: Pool, task_id: UUID, tokens: int) -> None:
    """Take back tokens that were counted but not used."""
    with pool.connection() as connection:
        connection.execute(_SQL["give_back"], {"task_id": task_id, "tokens": tokens})


def warn(pool: Pool, task_id: UUID, warning: str) -> None:
    """Set the warning that says what a task waits for."""
    warn_all(pool, [task_id], warning)


def warn_all(pool: Pool, task_ids: Sequence[UUID], warning: str) -> None:
    """Set the warnings that say what tasks wait for."""
    with pool.connection() as connection:
        connection.execute(_SQL["warn"], {"task_ids": list(task_ids), "warning": warning})


def clear_warning(pool: Pool, task_id: UUID) -> None:
    """Clear the warning of a task."""
    with pool.connection() as connection:
        connection.execute(_SQL["clear_warning"], {"task_id": task_id})


def note_cut_texts(pool: Pool, index_id: UUID, epoch: int) -> None:
    """Record that the run of an index cuts texts again that are longer than the model accepts."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["note_cut_texts"], {"index_id": index_id, "epoch": epoch})


def find_stalled(
    pool: Pool, patience: timedelta = STALLED_AFTER, limit: int = counting.MAX_COUNTED
) -> list[StalledTask]:
    """Return open tasks without progress for `patience` and without a warning that says why.

    Returns a task again after another `patience`.
    """
    with pool.connection() as connection:
        connection.execute(_SQL["note_work"])
        cursor = connection.cursor(row_factory=class_row(StalledTask))
        return cursor.execute(_SQL["stalled"], {"patience": patience, "busy": BUSY, "limit": limit}).fetchall()
