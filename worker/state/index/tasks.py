"""Rows of `search_index_task`: the life of one run over an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.sql import SQL

from schemas.errors import FoldexError
from schemas.status import TaskKind, TaskStatus
from worker.machine.logs import request_at_hand
from worker.state.index import counting, index_switch, leftovers
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load

#: A worker that does not renew its leases for this long is considered dead.
LEASE = timedelta(seconds=8)
#: A task without progress for this long, and without a warning that gives a reason, is a bug of ours.
STALLED_AFTER = timedelta(minutes=1)
#: The warning of a task that waits while other tasks occupy all workers.
BUSY = "Waiting: the workers are busy with other tasks."
#: The reason why an index that reached the limit does not replace the present one.
OVER_COST = (
    "The new index needs more tokens than config.max_cost_tokens; "
    "raise it, then repeat the change of the config or the renewal."
)
#: Number of workers in a row that may die during a listing without progress before the task ends.
MAX_PLAN_DEATHS = 3
#: Unexpected exceptions of a task's index slices, without a file that ends in between, before the task ends. More than
#: it takes to give up a single file (`files.MAX_DEATHS`). They count at most once per lease.
MAX_FAULTS = 40
#: A small task, which is also indexed on the fast queue, has at most this many files in total or left.
SMALL_TASK = 200
#: A large folder with few files left counts as small if these have at most this many bytes. An edit does; a few huge
#: files do not.
MAX_SMALL_BYTES = 4_000_000
#: Maximum delay of a message.
LONGEST_WAIT = timedelta(minutes=10)
#: Number of rows of tasks kept per index.
KEPT_TASKS = 1000
#: Maximum number of paths, over several requests and changes, that one run lists; beyond it the run lists the whole
#: folder.
MAX_PATHS = 1000

_SQL = load("index/tasks")


@dataclass(frozen=True, slots=True)
class ListingLease:
    """A lease on the listing of one task."""

    id: UUID
    index_id: UUID
    tool_id: UUID
    #: The request that led to the task; None if there is none.
    request_id: str | None
    list_cursor: str | None
    epoch: int | None
    allow_removals: bool
    #: The only paths to list; None for the whole folder. The source may still list all.
    paths: list[str] | None
    #: Entries of the config that earlier slices found to match something; None if a slice did not record them.
    matched: list[str] | None
    #: Number of workers that died during the listing since its last progress, and the last unexpected exception.
    deaths: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task whose writes are still wanted."""

    id: UUID
    index_id: UUID
    tool_id: UUID
    #: The request that led to the task; None if there is none.
    request_id: str | None
    epoch: int
    total_files: int
    done_files: int
    is_small: bool
    #: The tool's limit.
    max_cost_tokens: int | None
    #: Bytes of the unfinished files; None during the listing.
    left_bytes: int | None


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of an index's newest task. `has_words`: words find all files, and no task follows."""

    id: UUID
    status: str
    error: str | None
    held_removals: int
    finished_at: datetime | None
    has_words: bool = False


@dataclass(frozen=True, slots=True)
class _EndedTask:
    """A task that has just ended, with the requests for the run that follows it."""

    id: UUID
    tool_id: UUID
    index_id: UUID
    folder_node_id: str | None
    request_id: str | None
    status: str
    error: str | None
    error_code: str | None
    over_cost: bool
    rerun: bool
    rerun_full: bool
    rerun_allow_removals: bool
    rerun_request_id: str | None
    rerun_paths: list[str] | None
    rerun_tool_ids: list[UUID]
    #: Whether it leaves vectors to that run.
    awaits_vectors: bool


@dataclass(frozen=True, slots=True)
class ClosedTask:
    """A task that has just ended, and the follow-up task, if one was requested."""

    tool_id: UUID
    next_task_id: UUID | None
    #: The request that led to the task; None if there is none.
    request_id: str | None
    #: Code and message of the error with which the task ended; None if it ended well.
    failure: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class RetryTask:
    """A task started for failed files; `listing`: it lists the folder first, because the last task did not."""

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
    paths: Sequence[str] | None = None,
) -> UUID | None:
    """Create a pending task for the current request. Returns None if a task is already open over this index.

    It lists only `paths`, if given, unless the last task left work undone.
    """
    values: dict[str, object] = {"id": uuid4(), "tool_id": tool_id, "index_id": index_id, "kind": kind}
    values |= {"folder_node_id": folder_node_id, "full": full, "allow_removals": allow_removals}
    values |= {"paths": _array(paths), "request_id": request_at_hand()}
    return _create(connection, values)


def _create(connection: Connection[Any], values: Mapping[str, object]) -> UUID | None:
    created = connection.execute(_SQL["create"], {"asking": [], **values}).fetchone()
    if created is not None:
        connection.execute(_SQL["forget_old"], {**values, "kept": KEPT_TASKS})
    return created[0] if created else None


def _array(paths: Sequence[str] | None) -> list[str] | None:
    return None if paths is None else list(paths)


def request_rerun(
    connection: Connection[Any],
    index_id: UUID,
    tool_id: UUID,
    *,
    full: bool = False,
    allow_removals: bool = False,
    paths: Sequence[str] | None = None,
) -> bool:
    """Request a follow-up of the open task over an index for a tool, over some paths or all.

    Returns False if none is open.
    """
    values = {"index_id": index_id, "full": full, "allow_removals": allow_removals, "request_id": request_at_hand()}
    values |= {"paths": _array(paths), "most_paths": MAX_PATHS, "tool_id": tool_id}
    return connection.execute(_SQL["request_rerun"], values).rowcount > 0


def request_rerun_over_nodes(connection: Connection[Any], project_id: str, id_paths: Sequence[str]) -> None:
    """Request a follow-up of every running task whose folder contains, or lies below, an edited node.

    The running task may have listed the node before the edit.
    """
    values = {"project_id": project_id, "id_paths": list(id_paths), "request_id": request_at_hand()}
    connection.execute(_SQL["request_rerun_over_nodes"], {**values, "most_paths": MAX_PATHS})


def retry(
    connection: Connection[Any], *, tool_id: UUID, index_id: UUID, folder_node_id: str | None
) -> RetryTask | None:
    """Start a task over failed or open files, if any. Requires the index locked and no open task.

    The folder is not listed again, unless the last task ended before it had listed all of it.
    """
    if not is_true(connection, _SQL["listing_ended"], {"index_id": index_id}):
        planned = create(
            connection, tool_id=tool_id, index_id=index_id, folder_node_id=folder_node_id, kind=TaskKind.RETRY
        )
        return RetryTask(planned, listing=True, files=0) if planned else None
    return _take_up(connection, "retry_files", tool_id, index_id, folder_node_id)


def repair(
    connection: Connection[Any], *, tool_id: UUID, index_id: UUID, folder_node_id: str | None
) -> RetryTask | None:
    """Start a task over lost data of live files, if any, after a run that ended well.

    Requires the index locked and no open task.
    """
    return _take_up(connection, "repair_files", tool_id, index_id, folder_node_id)


def _take_up(
    connection: Connection[Any], query: str, tool_id: UUID, index_id: UUID, folder_node_id: str | None
) -> RetryTask | None:
    """Start a task over the files that a query takes up, if any."""
    task_id = uuid4()
    values: dict[str, object] = {"id": task_id, "tool_id": tool_id, "index_id": index_id}
    values |= {
        "folder_node_id": folder_node_id,
        "kind": TaskKind.RETRY,
        "full": False,
        "allow_removals": False,
        "paths": None,
    }
    file_count = connection.execute(_SQL[query], values).rowcount
    if not file_count:
        return None
    _create(connection, {**values, "request_id": request_at_hand()})
    for name in ("begin_retry", "raise_epoch"):
        connection.execute(_SQL[name], {**values, "task_id": task_id})
    counting.count(connection, [task_id])
    return RetryTask(task_id, listing=False, files=file_count)


def widen(connection: Connection[Any], index_id: UUID, tool_id: UUID) -> None:
    """Make the open task over an index, or one that follows it, list the whole folder for another tool."""
    connection.execute(_SQL["widen"], {"index_id": index_id, "tool_id": tool_id})


def newest(pool: Pool, index_id: UUID) -> TaskState | None:
    """Return the state of the task that describes an index."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(TaskState))
        return cursor.execute(_SQL["newest"], {"index_id": index_id}).fetchone()


def begin_plan(pool: Pool, task_id: UUID, owner: UUID, *, patience_ms: int = 1000) -> ListingLease | None:
    """Lease the listing of a task. Returns None if there is nothing to list or another worker lists it.

    The first lease of a task raises the index's epoch: from then on no earlier task can write. Raises
    `LockNotAvailable` if another transaction keeps a row locked for `patience_ms`.
    """
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(ListingLease))
        values = {"task_id": task_id, "owner": owner, "lease": LEASE, "patience": str(patience_ms)}
        connection.execute(_SQL["hurry"], values)
        connection.execute(_SQL["lock_index"], values)
        plan = cursor.execute(_SQL["begin_plan"], values).fetchone()
        if plan is not None and plan.epoch is None:
            connection.execute(_SQL["raise_epoch"], {"task_id": task_id, "index_id": plan.index_id})
        return plan


def release_plan(pool: Pool, task_id: UUID, owner: UUID) -> None:
    """Release the listing before its lease expires, or report that a worker counted as dead is alive."""
    with pool.connection() as connection:
        connection.execute(_SQL["release_plan"], {"task_id": task_id, "owner": owner})


def small_bounds() -> dict[str, int]:
    """Return the limits of a small task, as query parameters."""
    return {"most_files": SMALL_TASK, "most_bytes": MAX_SMALL_BYTES}


def running(pool: Pool, task_id: UUID) -> RunningTask | None:
    """Return the task if its writes are still wanted: not closed, cancelled, superseded or deleted."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(RunningTask))
        return cursor.execute(_SQL["running"], {"task_id": task_id, **small_bounds()}).fetchone()


def failure(pool: Pool, task_id: UUID) -> tuple[str, str] | None:
    """Return the code and the message of the error with which a task has ended, if it has."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["failure"], {"task_id": task_id}).fetchone()


def beat(connection: Connection[Any], task_id: UUID, owner: UUID, *, parsing: bool) -> bool:
    """Renew every lease of `owner`. Returns False once the task's writes are no longer wanted."""
    values = {"task_id": task_id, "owner": owner, "lease": LEASE, "parsing": parsing}
    return connection.execute(_SQL["beat"], values).fetchone() is not None


def refresh(pool: Pool, task_id: UUID, index_id: UUID, *, wait: bool = True) -> ClosedTask | None:
    """Update a task's counts, and close it if nothing is left. Returns None while it continues.

    Without `wait`, a task is skipped if its row, its project or its index is locked.
    """
    values = {"task_id": task_id, "index_id": index_id}
    with pool.connection() as connection:
        # checked before the counting: outcomes recorded in between would close the task without being counted
        row = connection.execute(_SQL["complete"], values).fetchone()
        if row is None:
            counting.bring_up_to_date(connection, task_id)
            return None
        seconds, are_noted = row
        takes_long = seconds > counting.LONG_SECONDS
        if not lock_row(connection, task_id, wait=wait):
            return None
        if takes_long and wait and not are_noted:
            # nobody else counts now, and nobody waits for this; later changes arrive as increments
            counting.count(connection, [task_id])
    with pool.connection() as connection:
        if wait:
            index_switch.lock_index(connection, index_id)
        elif not index_switch.try_lock_index(connection, index_id):
            return None
        if not lock_row(connection, task_id, wait=wait):
            return None
        (counting.add_noted if takes_long or are_noted else counting.count)(connection, [task_id])
        return _close(connection, _SQL["close"], values)


def lock_row(connection: Connection[Any], task_id: UUID, *, wait: bool) -> bool:
    """Lock a task's row; `wait` for a second. A process that holds the task's project never waits for the row."""
    values = {"task_id": task_id, "patience": "1s"}
    if not wait:
        return connection.execute(_SQL["lock_task"], values).fetchone() is not None
    connection.execute(_SQL["hurry"], values)
    return connection.execute(_SQL["await_task"], values).fetchone() is not None


def list_done(pool: Pool, limit: int) -> Sequence[tuple[UUID, UUID]]:
    """Return running tasks without remaining work, with their indexes."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["done"], {"limit": limit}).fetchall()


def fail(pool: Pool, task_id: UUID, index_id: UUID, error: FoldexError) -> ClosedTask | None:
    """End a task that cannot continue; live content stays searchable, and open files wait for the next task."""
    with pool.connection() as connection:
        index_switch.lock_index(connection, index_id)
        return _stop(connection, task_id, index_id, TaskStatus.ERROR, error)


def cancel(connection: Connection[Any], index_id: UUID, only: UUID | None = None) -> bool:
    """End the open task over an index, if it is `only` that one. Returns False if none is.

    Requires the index locked.
    """
    task_id = open_over(connection, index_id)
    return (
        task_id is not None
        and only in (None, task_id)
        and _stop(connection, task_id, index_id, TaskStatus.CANCELLED, None) is not None
    )


def open_over(connection: Connection[Any], index_id: UUID | None) -> UUID | None:
    """Lock the task that is open over an index, and return its id."""
    row = connection.execute(_SQL["open_task"], {"index_id": index_id}).fetchone()
    return row[0] if row else None


def _stop(
    connection: Connection[Any], task_id: UUID, index_id: UUID, status: TaskStatus, error: FoldexError | None
) -> ClosedTask | None:
    """End an open task early: shut out its workers, and return its open files to their live content."""
    values = {"task_id": task_id, "index_id": index_id, "status": status}
    values |= {"error": error and error.message, "error_code": error and error.code}
    if open_over(connection, index_id) != task_id:
        return None
    connection.execute(_SQL["shut_out"], values)
    returned = leftovers.return_files(connection, index_id)
    # the counting includes the files still to return
    (counting.count if returned is None else counting.add_noted)(connection, [task_id])
    return _close(connection, _SQL["stop"], values, returned)


def _close(
    connection: Connection[Any], query: SQL, values: Mapping[str, object], returned: UUID | None = None
) -> ClosedTask | None:
    """Run the query that ends a task, and all its consequences in the same transaction."""
    task = connection.cursor(row_factory=class_row(_EndedTask)).execute(query, values).fetchone()
    if task is None:
        return None
    leftovers.leave(connection, task.id, returned)
    status, error = TaskStatus(task.status), task.error
    failure = (task.error_code or "", error or "") if status is TaskStatus.ERROR else None
    closed = ClosedTask(task.tool_id, None, task.request_id, failure)
    if task.over_cost:
        # no tool switches to an index that the limit left incomplete
        status, error = TaskStatus.ERROR, OVER_COST
    if not task.rerun or (status is not TaskStatus.ERROR and not task.awaits_vectors):
        # Otherwise the requested follow-up may succeed, so tools that wait for the index wait for that run.
        index_switch.settle(connection, task.index_id, status, error)
    return replace(closed, next_task_id=_create_follow_up(connection, task)) if task.rerun else closed


def _create_follow_up(connection: Connection[Any], task: _EndedTask) -> UUID | None:
    values: dict[str, object] = {"tool_id": task.tool_id, "index_id": task.index_id}
    values |= {"folder_node_id": task.folder_node_id, "id": uuid4(), "kind": TaskKind.REINDEX}
    values |= {"full": task.rerun_full, "allow_removals": task.rerun_allow_removals, "paths": task.rerun_paths}
    values |= {"request_id": task.rerun_request_id, "asking": task.rerun_tool_ids}
    return _create(connection, values)


def bring_back(pool: Pool) -> int:
    """Reset times that exceed the maximum delay, because the clock was set back. Returns the number of tasks."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["bring_back"], {"longest": LONGEST_WAIT}).rowcount
