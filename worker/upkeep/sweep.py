"""Keeps everything moving when messages are lost and processes die. Any worker runs it, one at a time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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

#: Name of the lock that only one process in the installation holds at a time.
SWEEP = "sweep"
#: Seconds that a sweep may hold the lock, far more than it takes.
SWEEP_SECONDS = 10
#: Seconds that one sweep spends on deletes in one store, and again on purges; a single request may take longer.
UPKEEP_SECONDS = 1.5
#: Indexes that one sweep handles per store, and vectors that it deletes per index.
MAX_INDEXES, MAX_TOMBSTONES = 100, 1000
#: Postgres errors for a locked row or a slow statement; they do not end the sweep.
HELD = (LockNotAvailable, DeadlockDetected, QueryCanceled)
#: Time before a folder whose run could not be started is tried again.
FOLLOW_PAUSE = timedelta(minutes=1)

T = TypeVar("T")

log = structlog.get_logger()


class Wake(Protocol):
    """Sends `least` to `most` messages to index a task's files."""

    def __call__(self, task_id: UUID, most: int, *, least: int = 0) -> None:
        """Send them."""


def sweep(resources: Resources, refresh: Callable[[UUID, UUID], bool], wake: Wake) -> dict[str, Any]:
    """Run one round, unless another process is sweeping. `refresh` and `wake` are those of the tasks.

    No step waits long for a lock: see `worker.state.postgres`. `resources` come from `Resources.sweeping`.
    """
    with lone(resources.settings.database_url, SWEEP, seconds=SWEEP_SECONDS) as lock:
        if lock is None:
            return {"skipped": "another worker sweeps"}
        steps: dict[str, Callable[[Resources], int]] = {
            # first, because it frees rows that the other steps need
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
    # fails if this sweep took so long that another process has the lock
    lock.execute("SELECT")
    try:
        return step(resources)
    except LockNotAvailable as error:
        log.warning("a step of the sweep met a lock; the next round goes on", step=name, error=str(error))
        return "held"
    except psycopg.OperationalError:
        raise
    except Exception as error:  # a bug in one step must not stop the others
        log.exception("a step of the sweep failed", step=name)
        return type(error).__name__


def _unless_held(work: Callable[[], T]) -> T | None:
    """Run `work`. Returns None if another transaction holds its task or index; the next round tries again."""
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
    """Send a task that evicts from the cache; a bulk worker does it, since it may take seconds."""
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
    # a message serves whatever task the rows choose, so one waiting for a free worker is as good as a new one
    untaken = functools.cache(partial(queued, BULK))
    for task in tasks.open_tasks(resources.pool):
        closed = _unless_held(partial(refresh, task.id, task.index_id))
        if not closed and task.waiting and task.quiet and task.slices < MAX_SLICES:
            room = max(0, MAX_SLICES - task.slices - untaken())
            _unless_held(partial(wake, task.id, room, least=min(1, room)))
            woken += 1
    return woken


def _send_afresh(resources: Resources, wake: Wake) -> int:
    """Report open tasks without a worker, and send all their messages again, whatever was sent before."""
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
    """Start the runs that changes and schedules call for."""
    changes.schedule(resources.pool)
    due = changes.due(resources.pool)
    for index_id in due:
        with _failing_alone("a run could not be started yet", index_id=str(index_id)):
            _follow(resources, index_id)
            continue
        changes.put_off(resources.pool, index_id, FOLLOW_PAUSE)
    return len(due)


@contextmanager
def _failing_alone(event: str, **ids: str) -> Iterator[None]:
    """Log the failure of work on one index and go on, unless Postgres itself fails."""
    try:
        yield
    except HELD as error:
        log.warning(event, **ids, error=str(error))
    except psycopg.OperationalError:
        raise
    except Exception:  # a bug with one index must not delay or starve the others
        log.exception(event, **ids)


def _follow(resources: Resources, index_id: UUID) -> None:
    run = changes.start(resources.pool, index_id, timedelta(seconds=resources.settings.watch_rest_seconds))
    if run is not None:
        send_plan(run.task_id, run.tool_id)


def _send_strays(resources: Resources) -> int:
    """Send a task that deletes objects without a node."""
    if not orphans.expect_run(resources.pool):
        return 0
    send("foldex.strays", queue=BULK, shown="objects that no node names")
    return 1


def _send_checks(resources: Resources) -> int:
    """Send checks of namespaces that were not compared for long, or that a search found empty."""
    due = drift.due(resources.pool)
    for index_id in due:
        send("foldex.check", index_id, queue=BULK, shown=f"index {index_id}")
    return len(due)


def _delete_vectors(resources: Resources, indexes: int = MAX_INDEXES, each: int = MAX_TOMBSTONES) -> int:
    """Repeat unconfirmed deletes, and repeat every delete once no late write can follow."""

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
    """Purge deleted indexes: vectors first, rows last.

    The index's own row keeps its namespace name until late writes are impossible.
    """

    def purge(store: str, index: Buried) -> bool:
        resources.store(store, index.keyword_index).drop(index.namespace)
        return tools.purge(resources.pool, index.id, final=index.final)

    return sum(
        _look_after(resources, index.id, index.namespace, partial(purge, store, index))
        for store in STORES
        for index in _in_time(tools.buried(resources.pool, store, limit))
    )


def _in_time(due: Iterable[T]) -> Iterator[T]:
    """Yield the first item, and more until the time for one store is up."""
    until = time.monotonic() + UPKEEP_SECONDS
    for index in due:
        yield index
        if time.monotonic() > until:
            return


def _look_after(resources: Resources, index_id: UUID, namespace: str, work: Callable[[], bool]) -> bool:
    """Run the upkeep of one index, whose failure concerns no other. Returns False if it failed.

    `work` returns whether it did everything due; the rest waits for its next turn.
    """
    event, record = "vectors not deleted yet", delete_queue.put_off
    with _failing_alone(event, namespace=namespace):
        try:
            record = delete_queue.done if work() else delete_queue.requeue
        except FoldexError as error:
            log.warning(event, namespace=namespace, code=error.code, reason=error.message)
    record(resources.pool, index_id)
    return record is not delete_queue.put_off


def _check_names(resources: Resources) -> int:
    """Drop namespaces of deleted indexes that a late writer created again. No other index ever has such a name."""
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
