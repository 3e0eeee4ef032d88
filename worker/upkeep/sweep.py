"""What keeps everything moving when messages are lost and processes die; any worker runs it, one at a time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

import psycopg
import structlog
from psycopg import Connection
from psycopg.errors import DeadlockDetected, LockNotAvailable, QueryCanceled

from schemas.errors import FoldexError
from worker.app import BULK, FAST, MAX_SLICES, crowded, queued, send, send_plan
from worker.resources import STORES, Resources
from worker.state import silent_backends
from worker.state.content import orphans
from worker.state.index import changes, chunks, delete_queue, drift, embedding_cache, files, namespaces, tasks, tools
from worker.state.index.chunks import Tombstones
from worker.state.index.tools import Buried
from worker.state.postgres import lone

#: What only one process does at a time, in all.
SWEEP = "sweep"
#: Seconds that it has for that, far more than it takes.
SWEEP_SECONDS = 10
#: Seconds that one sweep spends on the deletes of one store, and again on its purges; a request may take longer.
UPKEEP_SECONDS = 1.5
#: Indexes that one sweep looks after in one store, and vectors that it deletes of each.
MAX_INDEXES, MAX_TOMBSTONES = 100, 1000
#: What Postgres says where one row is held, or one statement takes too long: no reason to end the whole sweep.
HELD = (LockNotAvailable, DeadlockDetected, QueryCanceled)
#: A folder whose run could not be started is tried again after so long.
FOLLOW_PAUSE = timedelta(minutes=1)

T = TypeVar("T")

log = structlog.get_logger()


class Wake(Protocol):
    """Sends `least` to `most` messages to index a task's files."""

    def __call__(self, task_id: UUID, most: int, *, least: int = 0) -> None:
        """Send them."""


def sweep(resources: Resources, refresh: Callable[[UUID, UUID], bool], wake: Wake) -> dict[str, Any]:
    """One round; does nothing while another process is at it. `refresh` and `wake` are those of the tasks.

    Nothing here waits for a lock for long: see `worker.state.postgres`.
    `resources` are those of `Resources.sweeping`.
    """
    with lone(resources.settings.database_url, SWEEP, seconds=SWEEP_SECONDS) as lock:
        if lock is None:
            return {"skipped": "another worker sweeps"}
        steps: dict[str, Callable[[Resources], int]] = {
            # first, as it frees what the others may meet
            "silent": _end_silent,
            "expired": _return_expired,
            "followed": _follow_folders,
            "woken": partial(_wake_tasks, refresh=refresh, wake=wake),
            "stalled": partial(_send_afresh, wake=wake),
            "checks": _send_checks,
            "deleted": _delete_vectors,
            "purged": _purge_indexes,
            "names": _check_names,
            "strays": _send_strays,
            "evictions": _send_eviction,
        }
        return {name: _attempt(lock, name, step, resources) for name, step in steps.items()}


def _attempt(lock: Connection[Any], name: str, step: Callable[[Resources], int], resources: Resources) -> int | str:
    # whoever took so long that another sweeps by now ends here
    lock.execute("SELECT")
    try:
        return step(resources)
    except LockNotAvailable as error:
        log.warning("a step of the sweep met a lock; the next round goes on", step=name, error=str(error))
        return "held"
    except psycopg.OperationalError:
        raise
    except Exception as error:  # a mistake in one step must not keep the others from their work
        log.exception("a step of the sweep failed", step=name)
        return type(error).__name__


def _unless_held(work: Callable[[], T]) -> T | None:
    """None for a task or index that another transaction holds: the next round comes to it again."""
    try:
        return work()
    except LockNotAvailable as error:
        log.warning("left to the next sweep, as it is locked", error=str(error))
        return None


def _end_silent(resources: Resources) -> int:
    ended = silent_backends.reap(resources.pool)
    if ended:
        log.warning("connections of silent processes ended", backends=ended)
    return len(ended)


def _return_expired(resources: Resources) -> int:
    expired = files.return_expired(resources.pool)
    if expired:
        crashed = [path for _, path, crashes in expired if crashes]
        log.warning("leases of a dead worker returned", files=len(expired), crashed=crashed)
    return len(expired)


def _send_eviction(resources: Resources) -> int:
    """Have the cache's bounds held; that may take seconds, so a bulk worker does it."""
    due = embedding_cache.eviction_due(resources.pool)
    if due:
        send("foldex.evict", queue=BULK, shown="embedding cache")
    return int(due)


def _wake_tasks(resources: Resources, refresh: Callable[[UUID, UUID], bool], wake: Wake) -> int:
    woken = 0
    tasks.bring_back(resources.pool)
    unplanned = tasks.unplanned(resources.pool)
    for task_id, tool_id in [] if unplanned and crowded(FAST) else unplanned:
        if tasks.sent_unless_held(resources.pool, task_id):
            send_plan(task_id, tool_id)
            woken += 1
    # a message serves whatever task the rows choose: one that waits for a free worker is as good as a new one
    untaken = functools.cache(partial(queued, BULK))
    for task in tasks.open_tasks(resources.pool):
        closed = _unless_held(partial(refresh, task.id, task.index_id))
        if not closed and task.waiting and task.quiet and task.slices < MAX_SLICES:
            room = max(0, MAX_SLICES - task.slices - untaken())
            _unless_held(partial(wake, task.id, room, least=min(1, room)))
            woken += 1
    return woken


def _send_afresh(resources: Resources, wake: Wake) -> int:
    """Raise the alarm over tasks that nobody works on, and send all their messages again, whatever was sent before."""
    stalled = tasks.stalled(resources.pool)
    if stalled and tasks.any_work(resources.pool):
        for task in stalled:
            tasks.warn(resources.pool, task.id, tasks.BUSY)
        return 0
    for task in stalled:
        log.error(
            "nobody works on an open task; all its messages are sent again",
            task_id=str(task.id),
            tool_id=str(task.tool_id),
            status=task.status,
            listing=task.listing,
            open_files=tasks.open_files(resources.pool, task.index_id),
            plan_until=str(task.plan_until),
            sent_at=str(task.sent_at),
            refreshed_at=str(task.refreshed_at),
            queued={queue: queued(queue) for queue in (FAST, BULK)},
        )
        if task.listing:
            send_plan(task.id, task.tool_id)
        wake(task.id, MAX_SLICES, least=MAX_SLICES)
    return len(stalled)


def _follow_folders(resources: Resources) -> int:
    """Start the runs that changes and schedules ask for."""
    changes.schedule(resources.pool)
    due = changes.due(resources.pool)
    for index_id in due:
        try:
            _follow(resources, index_id)
            continue
        except HELD as error:
            log.warning("a run could not be started yet", index_id=str(index_id), error=str(error))
        except psycopg.OperationalError:
            raise
        except Exception:  # nor must one folder keep the others from theirs
            log.exception("a run could not be started yet", index_id=str(index_id))
        changes.put_off(resources.pool, index_id, FOLLOW_PAUSE)
    return len(due)


def _follow(resources: Resources, index_id: UUID) -> None:
    run = changes.start(resources.pool, index_id, timedelta(seconds=resources.settings.watch_rest_seconds))
    if run is not None:
        send_plan(run.task_id, run.tool_id)


def _send_strays(resources: Resources) -> int:
    """Have objects deleted that no node names."""
    if not orphans.expect_run(resources.pool):
        return 0
    send("foldex.strays", queue=BULK, shown="objects that no node names")
    return 1


def _send_checks(resources: Resources) -> int:
    """Have namespaces compared that nobody looked at for long, or that a search found empty."""
    due = drift.due(resources.pool)
    for index_id in due:
        send("foldex.check", index_id, queue=BULK, shown=f"index {index_id}")
    return len(due)


def _delete_vectors(resources: Resources, indexes: int = MAX_INDEXES, each: int = MAX_TOMBSTONES) -> int:
    """Repeat deletes that were not confirmed, and all of them once no late write can follow any more."""

    def delete(store: str, index: Tombstones) -> bool:
        resources.store(store, "store").write(index.namespace, index.dimensions, deletes=index.ids)
        chunks.confirm_deleted(resources.pool, index.ids)
        chunks.purge_tombstones(resources.pool, index.final)
        return len(index.ids) < each

    return sum(
        _look_after(resources, index.index_id, index.namespace, partial(delete, store, index))
        for store in STORES
        for index in _in_time(chunks.due_tombstones(resources.pool, store, indexes=indexes, each=each))
    )


def _purge_indexes(resources: Resources, limit: int = MAX_INDEXES) -> int:
    """Vectors first, rows last; the index's own row keeps its namespace's name until late writes are impossible."""

    def purge(store: str, index: Buried) -> bool:
        resources.store(store, index.keyword_index).drop(index.namespace)
        return tools.purge(resources.pool, index.id, final=index.final)

    return sum(
        _look_after(resources, index.id, index.namespace, partial(purge, store, index))
        for store in STORES
        for index in _in_time(tools.buried(resources.pool, store, limit))
    )


def _in_time(due: Iterable[T]) -> Iterator[T]:
    """The first of them, and more until the time of one store is spent."""
    until = time.monotonic() + UPKEEP_SECONDS
    for index in due:
        yield index
        if time.monotonic() > until:
            return


def _look_after(resources: Resources, index_id: UUID, namespace: str, work: Callable[[], bool]) -> bool:
    """Do the upkeep of one index, whose failure concerns no other; False where it failed.

    `work` tells whether everything due was done; the rest waits for its next turn.
    """
    record = delete_queue.put_off
    try:
        record = delete_queue.done if work() else delete_queue.requeue
    except FoldexError as error:
        log.warning("vectors not deleted yet", namespace=namespace, code=error.code, reason=error.message)
    except HELD as error:
        log.warning("vectors not deleted yet", namespace=namespace, error=str(error))
    except psycopg.OperationalError:
        raise
    except Exception:  # a mistake over one index must not starve the others
        log.exception("vectors not deleted yet", namespace=namespace)
    record(resources.pool, index_id)
    return record is not delete_queue.put_off


def _check_names(resources: Resources) -> int:
    """Drop what a late writer brought back of an index that is gone. Its name is nobody else's, ever."""
    due = namespaces.take_due(resources.pool)
    down: set[str] = set()
    for retired in due:
        if retired.vector_store in down:
            continue
        try:
            came_back = resources.store(retired.vector_store, retired.keyword_index).drop(retired.name)
        except FoldexError as error:
            down.add(retired.vector_store)
            log.warning("name not looked at", namespace=retired.name, code=error.code, reason=error.message)
            continue
        if came_back:
            log.warning("a late writer brought a deleted namespace back; it is dropped", namespace=retired.name)
        namespaces.checked(resources.pool, retired.name)
    return len(due)
