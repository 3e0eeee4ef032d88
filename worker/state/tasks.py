"""Rows of `search_index_task`: the life of one run over an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import class_row, dict_row

from schemas.status import TaskKind
from worker.state import Pool, load

#: A worker that does not renew its leases for so long is taken for dead.
LEASE = timedelta(seconds=8)
#: A task nobody works on for so long gets another message.
PATIENCE = timedelta(seconds=3)

_SQL = load("tasks")


@dataclass(frozen=True, slots=True)
class Plan:
    """A lease on the listing of one task."""

    id: UUID
    index_id: UUID
    tool_id: UUID
    list_cursor: str | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Running:
    """A task whose writes are still wanted."""

    id: UUID
    index_id: UUID
    tool_id: UUID
    epoch: int
    listing: bool
    total_files: int
    done_files: int


@dataclass(frozen=True, slots=True)
class Open:
    """What the sweep needs to know of a running task."""

    id: UUID
    index_id: UUID
    waiting: bool
    slices: int
    quiet: bool


def create(
    connection: Connection[Any],
    *,
    tool_id: UUID,
    index_id: UUID,
    folder_node_id: str | None,
    kind: TaskKind,
    allow_removals: bool = False,
) -> UUID | None:
    """A pending task, or None where one is open over this index already."""
    task_id = uuid4()
    row = {"id": task_id, "tool_id": tool_id, "index_id": index_id, "folder_node_id": folder_node_id, "kind": kind}
    created = connection.execute(_SQL["create"], {**row, "allow_removals": allow_removals})
    return task_id if created.rowcount else None


def newest(pool: Pool, index_id: UUID) -> dict[str, Any] | None:
    """The task that tells the state of an index."""
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["newest"], {"index_id": index_id}).fetchone()


def history(pool: Pool, index_id: UUID, before: tuple[datetime, UUID] | None, limit: int) -> list[dict[str, Any]]:
    """Tasks of an index, newest first."""
    time, id_ = before or (None, None)
    values = {"index_id": index_id, "before_time": time, "before_id": id_, "limit": limit}
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["history"], values).fetchall()


def begin_plan(pool: Pool, task_id: UUID, owner: UUID) -> Plan | None:
    """Lease the listing of a task, or None where there is nothing to list or another worker does.

    The first lease of a task raises the index's epoch: from then on no earlier task can write.
    """
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Plan))
        values = {"task_id": task_id, "owner": owner, "lease": LEASE}
        connection.execute(_SQL["lock_index"], values)
        plan = cursor.execute(_SQL["begin_plan"], values).fetchone()
        if plan is not None and plan.epoch is None:
            connection.execute(_SQL["raise_epoch"], {"task_id": task_id, "index_id": plan.index_id})
        return plan


def release_plan(pool: Pool, task_id: UUID, owner: UUID) -> None:
    """Give the listing back before the lease runs out."""
    with pool.connection() as connection:
        connection.execute(_SQL["release_plan"], {"task_id": task_id, "owner": owner})


def running(pool: Pool, task_id: UUID) -> Running | None:
    """The task if its writes are still wanted: not closed, cancelled, superseded or deleted."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Running))
        return cursor.execute(_SQL["running"], {"task_id": task_id}).fetchone()


def beat(connection: Connection[Any], task_id: UUID, owner: UUID) -> bool:
    """Renew every lease of `owner`; False once the task's writes are not wanted any more."""
    values = {"task_id": task_id, "owner": owner, "lease": LEASE}
    return connection.execute(_SQL["beat"], values).fetchone() is not None


def refresh(pool: Pool, task_id: UUID, index_id: UUID) -> bool:
    """Count the file rows into the task's row, and close the task if nothing is left to do; True if it closed."""
    values = {"task_id": task_id, "index_id": index_id}
    with pool.connection() as connection:
        connection.execute(_SQL["refresh"], values)
        closed = connection.execute(_SQL["close"], values).fetchone() is not None
        if closed:
            connection.execute(_SQL["clear_listing"], values)
        return closed


def fail(pool: Pool, task_id: UUID, index_id: UUID, error: str) -> None:
    """End a task that cannot go on; what is live stays searchable, and open files wait for the next task."""
    with pool.connection() as connection:
        connection.execute(_SQL["refresh"], {"task_id": task_id, "index_id": index_id})
        if connection.execute(_SQL["fail"], {"task_id": task_id, "error": error}).rowcount:
            connection.execute(_SQL["fail_open_files"], {"index_id": index_id})
            connection.execute(_SQL["clear_listing"], {"task_id": task_id})


def warn(pool: Pool, task_id: UUID, warning: str) -> None:
    """Say what a task waits for."""
    with pool.connection() as connection:
        connection.execute(_SQL["warn"], {"task_id": task_id, "warning": warning})


def sent(pool: Pool, task_id: UUID) -> None:
    """Note that a message went out, so that the sweep gives it time to arrive."""
    with pool.connection() as connection:
        connection.execute(_SQL["sent"], {"task_id": task_id})


def unplanned(pool: Pool) -> Sequence[tuple[UUID, UUID]]:
    """Tasks, with their tools, whose listing nobody works on and whose message may be lost."""
    with pool.connection() as connection:
        return connection.execute(_SQL["unplanned"], {"patience": PATIENCE}).fetchall()


def open_tasks(pool: Pool) -> Sequence[Open]:
    """Every running task."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Open))
        return cursor.execute(_SQL["open_tasks"], {"patience": PATIENCE}).fetchall()
