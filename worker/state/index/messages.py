"""Messages about tasks: the tasks that wait for one, and when it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from psycopg.rows import class_row

from worker.state.index import tasks
from worker.state.index.turns import Reach
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: A task without a worker for this long gets another message.
RESEND_AFTER = timedelta(seconds=3)
#: The warning of a task that workers pass over.
LOCKED = "Waiting: another session of Postgres holds rows of this index. `foldex doctor` names it."
#: Time after which a task that met a lock is retried, and the time if its index or all its files stay locked.
PAUSE = timedelta(seconds=8)
LOCKED_PAUSE = timedelta(seconds=30)
#: Number of remaining files for each slice beyond the slices that every task may have.
FILES_PER_FURTHER_SLICE = 500

_SQL = load("index/messages")


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A running task with waiting files, its current and maximum number of slices, and whether it has few files."""

    id: UUID
    slices: int
    most: int
    is_small: bool


def note_sent(pool: Pool, task_id: UUID, seconds: float = 0) -> bool:
    """Record that a message is sent, to arrive in `seconds`, so that the sweep waits for it.

    Returns False if another transaction locks the task: then it is being handled, or nobody could handle it.
    """
    with pool.connection() as connection:
        values = {"task_id": task_id, "delay": timedelta(seconds=seconds)}
        return connection.execute(_SQL["sent"], values).rowcount > 0


def pass_over(pool: Pool, task_id: UUID) -> None:
    """Make workers serve other tasks for a while, because a row that this one needs stays locked."""
    with pool.connection() as connection:
        values = {"task_id": task_id, "soon": PAUSE, "later": LOCKED_PAUSE, "warning": LOCKED}
        connection.execute(_SQL["pass_over"], values)


def leave(pool: Pool, task_id: UUID, reach: Reach) -> bool:
    """Leave a task to workers that can see the directories that this one refuses, with its reasons.

    Returns False if the task needs none of these directories, or if a worker is at it.
    """
    # a folder that this host lacks has its own warning
    values = {"task_id": task_id, **reach.values, "host": None}
    values["warning"] = f"Waiting: {' '.join(reach.refused.values())}"
    with pool.connection() as connection:
        return connection.execute(_SQL["leave"], values).rowcount > 0


def take_up_freed(pool: Pool) -> int:
    """Let workers serve tasks whose index or files are no longer locked. Returns their number."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["take_up_freed"], {"warning": LOCKED}).rowcount


def list_unplanned(pool: Pool, limit: int) -> Sequence[tuple[UUID, UUID]]:
    """Return tasks, with their tools, whose listing has no worker and whose message may be lost."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["unplanned"], {"patience": RESEND_AFTER, "limit": limit}).fetchall()


def waiting(pool: Pool, *, most_slices: int, limit: int) -> list[WaitingTask]:
    """Return running tasks that wait for a worker, and whose message may be lost, in the order of their turns.

    Each has at most `most_slices`, or more if it has many files left.
    """
    values: dict[str, object] = {"patience": RESEND_AFTER, "files_per_slice": FILES_PER_FURTHER_SLICE}
    values |= {"most_slices": most_slices, **tasks.small_bounds()}
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(WaitingTask))
        return cursor.execute(_SQL["waiting"], {**values, "limit": limit}).fetchall()


def count_slices(pool: Pool) -> int:
    """Count the slices that hold files of any task."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["slices"]).fetchone()
        return int(row[0]) if row else 0
