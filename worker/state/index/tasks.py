"""Rows of `search_index_task`: the life of one run over an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import class_row, dict_row
from psycopg.sql import SQL

from schemas.errors import FoldexError
from schemas.status import TaskKind, TaskStatus
from worker.state.index import index_switch
from worker.state.postgres import Pool, load, reading

#: A worker that does not renew its leases for so long is taken for dead.
LEASE = timedelta(seconds=8)
#: A task nobody works on for so long gets another message.
PATIENCE = timedelta(seconds=3)
#: A task that nobody worked on for so long, and that does not say what it waits for, is a fault of ours.
STALLED = timedelta(minutes=1)
#: What a task waits for while others keep all workers.
BUSY = "Waiting: the workers are busy with other tasks."
#: Workers that may die of one listing, none of which came further, before the task ends.
MAX_PLAN_DEATHS = 3
#: Index slices of a task that may end by an unexpected exception, without a file that ends meanwhile, before the task
#: ends; more than a single file needs to be given up (`files.MAX_DEATHS`). They count at most once a lease.
MAX_FAULTS = 40
#: The longest that a message is ever put off.
LONGEST_WAIT = timedelta(minutes=10)

_SQL = load("index/tasks")


@dataclass(frozen=True, slots=True)
class Plan:
    """A lease on the listing of one task."""

    id: UUID
    index_id: UUID
    tool_id: UUID
    list_cursor: str | None
    epoch: int | None
    allow_removals: bool
    #: Workers that died of it since it last came further, and the last unexpected exception.
    deaths: int
    fault: str | None


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


@dataclass(frozen=True, slots=True)
class Stalled:
    """An open task that nobody works on, with what is known about the reason."""

    id: UUID
    tool_id: UUID
    index_id: UUID
    status: str
    listing: bool
    plan_until: datetime | None
    sent_at: datetime | None
    refreshed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Closed:
    """A task that ended just now, and the further task that follows it, if one was asked for."""

    tool_id: UUID
    next_task_id: UUID | None


@dataclass(frozen=True, slots=True)
class Retry:
    """A task that was started to take up what failed; `listing`: it lists the folder first, as the last one did not."""

    id: UUID
    listing: bool
    files: int


def create(
    connection: Connection[Any],
    *,
    tool_id: UUID,
    index_id: UUID,
    folder_node_id: str | None,
    kind: TaskKind,
    full: bool = False,
    allow_removals: bool = False,
) -> UUID | None:
    """A pending task, or None where one is open over this index already."""
    task_id = uuid4()
    row = {"id": task_id, "tool_id": tool_id, "index_id": index_id, "folder_node_id": folder_node_id, "kind": kind}
    created = connection.execute(_SQL["create"], {**row, "full": full, "allow_removals": allow_removals})
    return task_id if created.rowcount else None


def ask_again(connection: Connection[Any], index_id: UUID, *, full: bool = False, allow_removals: bool = False) -> bool:
    """Have the task that is open over an index followed by one further; False where none is open."""
    values = {"index_id": index_id, "full": full, "allow_removals": allow_removals}
    return connection.execute(_SQL["ask_again"], values).rowcount > 0


def ask_again_over_nodes(connection: Connection[Any], project_id: str, id_paths: Sequence[str]) -> None:
    """Have every running task whose folder holds, or lies below, an edited node followed by one further.

    The running one's walk may have passed the node already.
    """
    connection.execute(_SQL["ask_again_over_nodes"], {"project_id": project_id, "id_paths": list(id_paths)})


def retry(connection: Connection[Any], *, tool_id: UUID, index_id: UUID, folder_node_id: str | None) -> Retry | None:
    """Start a task over what failed or was left open, if there is any; wants the index locked and no task open.

    The folder is not listed again, unless the last task ended before it had seen all of it.
    """
    row: dict[str, Any] = {"tool_id": tool_id, "index_id": index_id, "folder_node_id": folder_node_id}
    seen = connection.execute(_SQL["listing_ended"], row).fetchone()
    if seen is None or not seen[0]:
        planned = create(connection, kind=TaskKind.RETRY, **row)
        return Retry(planned, listing=True, files=0) if planned else None
    values = {**row, "id": uuid4(), "kind": TaskKind.RETRY, "full": False, "allow_removals": False}
    taken = connection.execute(_SQL["retry_files"], values).rowcount
    if not taken:
        return None
    values["task_id"] = values["id"]
    for query in ("create", "begin_retry", "raise_epoch", "refresh"):
        connection.execute(_SQL[query], values)
    return Retry(values["id"], listing=False, files=taken)


def newest(pool: Pool, index_id: UUID) -> dict[str, Any] | None:
    """The task that tells the state of an index."""
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["newest"], {"index_id": index_id}).fetchone()


def counts(pool: Pool, index_id: UUID, *, lost_too: bool = False) -> tuple[int, int]:
    """Indexed files and all files of an index, as its newest task has counted them.

    With `lost_too` also those count as indexed of which only the vectors are to be written again.
    """
    values = {"index_id": index_id, "lost_too": lost_too}
    with reading(pool) as connection:
        return connection.execute(_SQL["counts"], values).fetchone() or (0, 0)


def newest_of_tool(pool: Pool, tool_id: UUID) -> dict[str, Any] | None:
    """The task that tells the state of a tool's index; None if the tool is gone."""
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["newest_of_tool"], {"tool_id": tool_id}).fetchone()


def history(pool: Pool, tool_id: UUID, before: tuple[datetime, UUID] | None, limit: int) -> list[dict[str, Any]]:
    """Tasks over a tool's index, and over the one that is built to take its place; newest first."""
    time, id_ = before or (None, None)
    values = {"tool_id": tool_id, "before_time": time, "before_id": id_, "limit": limit}
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["history"], values).fetchall()


def begin_plan(pool: Pool, task_id: UUID, owner: UUID) -> Plan | None:
    """Lease the listing of a task, or None where there is nothing to list or another worker does.

    The first lease of a task raises the index's epoch: from then on no earlier task can write.
    """
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Plan))
        values = {"task_id": task_id, "owner": owner, "lease": LEASE}
        connection.execute(_SQL["hurry"])
        connection.execute(_SQL["lock_index"], values)
        plan = cursor.execute(_SQL["begin_plan"], values).fetchone()
        if plan is not None and plan.epoch is None:
            connection.execute(_SQL["raise_epoch"], {"task_id": task_id, "index_id": plan.index_id})
        return plan


def release_plan(pool: Pool, task_id: UUID, owner: UUID) -> None:
    """Give the listing back before the lease runs out, or tell that its worker lives, which seemed dead."""
    with pool.connection() as connection:
        connection.execute(_SQL["release_plan"], {"task_id": task_id, "owner": owner})


def note_fault(pool: Pool, task_id: UUID, fault: str) -> None:
    """Keep the unexpected exception of a listing, for the reason that the task may end with."""
    with pool.connection() as connection:
        connection.execute(_SQL["note_fault"], {"task_id": task_id, "fault": fault})


def count_fault(pool: Pool, task_id: UUID, fault: str, rest: timedelta = LEASE) -> int:
    """Count the unexpected exception of an index slice, once in a `rest`; how many there were since a file ended."""
    with pool.connection() as connection:
        values = {"task_id": task_id, "fault": fault, "rest": rest}
        row = connection.execute(_SQL["count_fault"], values).fetchone()
        return row[0] if row else 0


def running(pool: Pool, task_id: UUID) -> Running | None:
    """The task if its writes are still wanted: not closed, cancelled, superseded or deleted."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Running))
        return cursor.execute(_SQL["running"], {"task_id": task_id}).fetchone()


def beat(connection: Connection[Any], task_id: UUID, owner: UUID, *, parsing: bool) -> bool:
    """Renew every lease of `owner`; False once the task's writes are not wanted any more."""
    values = {"task_id": task_id, "owner": owner, "lease": LEASE, "parsing": parsing}
    return connection.execute(_SQL["beat"], values).fetchone() is not None


def refresh(pool: Pool, task_id: UUID, index_id: UUID, *, wait: bool = True) -> Closed | None:
    """Count the file rows into the task's row, and close the task if nothing is left to do; None while it goes on.

    Unless it may `wait`, a task is left alone whose project or index is locked.
    """
    values = {"task_id": task_id, "index_id": index_id}
    with pool.connection() as connection:
        # asked before the counting: outcomes that come between the two would be in the task's end and not in its counts
        complete = connection.execute(_SQL["complete"], values).fetchone() is not None
        if complete and wait:
            index_switch.lock_index(connection, index_id)
        elif complete and not index_switch.try_lock_index(connection, index_id):
            return None
        if complete or connection.execute(_SQL["due"], values).fetchone() is not None:
            connection.execute(_SQL["refresh"], values)
        return _closed(connection, _SQL["close"], values) if complete else None


def fail(pool: Pool, task_id: UUID, index_id: UUID, error: FoldexError) -> Closed | None:
    """End a task that cannot go on; what is live stays searchable, and open files wait for the next task."""
    with pool.connection() as connection:
        index_switch.lock_index(connection, index_id)
        return _stop(connection, task_id, index_id, TaskStatus.ERROR, error)


def cancel(connection: Connection[Any], index_id: UUID) -> None:
    """End the task that is open over an index, if any; wants the index locked."""
    found = connection.execute(_SQL["open_task"], {"index_id": index_id}).fetchone()
    if found is not None:
        _stop(connection, found[0], index_id, TaskStatus.CANCELLED, None)


def _stop(
    connection: Connection[Any], task_id: UUID, index_id: UUID, status: TaskStatus, error: FoldexError | None
) -> Closed | None:
    """End an open task before its time: its workers are shut out, its open files go back to what is live of them."""
    values = {"task_id": task_id, "index_id": index_id, "status": status}
    values |= {"error": error and error.message, "error_code": error and error.code}
    found = connection.execute(_SQL["open_task"], values).fetchone()
    if found is None or found[0] != task_id:
        return None
    for query in ("shut_out", "bury_unfinished", "return_files", "refresh"):
        connection.execute(_SQL[query], values)
    return _closed(connection, _SQL["stop"], values)


def _closed(connection: Connection[Any], query: SQL, values: dict[str, Any]) -> Closed | None:
    """Run the query that ends a task, and do in the same transaction all that follows from it."""
    ended = connection.cursor(row_factory=dict_row).execute(query, values).fetchone()
    if ended is None:
        return None
    connection.execute(_SQL["clear_listing"], {"task_id": ended["id"]})
    lives_on = index_switch.settle(connection, ended["index_id"], TaskStatus(ended["status"]), ended["error"])
    again = ended["rerun"] and lives_on
    return Closed(ended["tool_id"], _further(connection, ended) if again else None)


def _further(connection: Connection[Any], ended: dict[str, Any]) -> UUID | None:
    return create(
        connection,
        tool_id=ended["tool_id"],
        index_id=ended["index_id"],
        folder_node_id=ended["folder_node_id"],
        kind=TaskKind.REINDEX,
        full=ended["rerun_full"],
        allow_removals=ended["rerun_allow_removals"],
    )


def warn(pool: Pool, task_id: UUID, warning: str) -> None:
    """Say what a task waits for."""
    with pool.connection() as connection:
        connection.execute(_SQL["warn"], {"task_id": task_id, "warning": warning})


def go_on(pool: Pool, task_id: UUID) -> None:
    """Take back what a task waited for."""
    with pool.connection() as connection:
        connection.execute(_SQL["go_on"], {"task_id": task_id})


def sent(pool: Pool, task_id: UUID, seconds: float = 0) -> None:
    """Note that a message went out, to arrive in so many seconds, so that the sweep gives it time."""
    with pool.connection() as connection:
        connection.execute(_SQL["sent"], {"task_id": task_id, "delay": timedelta(seconds=seconds)})


def sent_unless_held(pool: Pool, task_id: UUID) -> bool:
    """As `sent`; False, and nothing is noted, where another transaction holds the task: it is in hand."""
    with pool.connection() as connection:
        return connection.execute(_SQL["sent_unless_held"], {"task_id": task_id}).rowcount > 0


def bring_back(pool: Pool) -> int:
    """Put off no task further than any ever is, as those are whose clock was set back; how many there were."""
    with pool.connection() as connection:
        return connection.execute(_SQL["bring_back"], {"longest": LONGEST_WAIT}).rowcount


def unplanned(pool: Pool) -> Sequence[tuple[UUID, UUID]]:
    """Tasks, with their tools, whose listing nobody works on and whose message may be lost."""
    with pool.connection() as connection:
        return connection.execute(_SQL["unplanned"], {"patience": PATIENCE}).fetchall()


def open_tasks(pool: Pool) -> Sequence[Open]:
    """Every running task."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Open))
        return cursor.execute(_SQL["open_tasks"], {"patience": PATIENCE}).fetchall()


def stalled(pool: Pool, patience: timedelta = STALLED) -> list[Stalled]:
    """Open tasks on which nobody worked for so long, without a warning that says why; each again after as long."""
    with pool.connection() as connection:
        connection.execute(_SQL["note_work"])
        cursor = connection.cursor(row_factory=class_row(Stalled))
        return cursor.execute(_SQL["stalled"], {"patience": patience, "busy": BUSY}).fetchall()


def any_work(pool: Pool) -> bool:
    """Whether any worker holds files of any task."""
    with reading(pool) as connection:
        row = connection.execute(_SQL["any_work"]).fetchone()
        return bool(row and row[0])


def open_files(pool: Pool, index_id: UUID) -> dict[str, int]:
    """Numbers of an index's unfinished files, by status and work."""
    with reading(pool) as connection:
        return dict(connection.execute(_SQL["open_files"], {"index_id": index_id}).fetchall())
