"""What keeps everything moving when messages are lost and processes die; any worker runs it, one at a time."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import psycopg
import structlog

from schemas.errors import StoreError
from worker.app import BULK, FAST, MAX_SLICES, crowded, queued, send, send_plan
from worker.resources import Resources
from worker.state import alone, cache, chunks, drift, files, strays, tasks, tools, watch
from worker.state.chunks import Tombstone

#: What only one process does at a time, in all.
SWEEP = "sweep"
#: Seconds that it has for that, far more than it takes.
SWEEP_SECONDS = 10
#: Vectors deleted by one sweep.
MAX_TOMBSTONES = 5000

log = structlog.get_logger()


class Wake(Protocol):
    """Sends `least` to `most` messages to index a task's files."""

    def __call__(self, task_id: UUID, most: int, *, least: int = 0) -> None:
        """Send them."""


def sweep(resources: Resources, refresh: Callable[[UUID, UUID], bool], wake: Wake) -> dict[str, Any]:
    """One round; does nothing while another process is at it. `refresh` and `wake` are those of the tasks."""
    with alone(resources.settings.database_url, SWEEP, seconds=SWEEP_SECONDS) as free:
        if not free:
            return {"skipped": "another worker sweeps"}
        steps: dict[str, Callable[[Resources], int]] = {
            "expired": _return_expired,
            "followed": _follow_folders,
            "woken": partial(_wake_tasks, refresh=refresh, wake=wake),
            "stalled": partial(_send_afresh, wake=wake),
            "checks": _send_checks,
            "deleted": _delete_vectors,
            "purged": _purge_indexes,
            "strays": _send_strays,
            "evictions": _send_eviction,
        }
        return {name: _attempt(name, step, resources) for name, step in steps.items()}


def _attempt(name: str, step: Callable[[Resources], int], resources: Resources) -> int | str:
    try:
        return step(resources)
    except psycopg.OperationalError:
        raise
    except Exception as error:  # a mistake in one step must not keep the others from their work
        log.exception("a step of the sweep failed", step=name)
        return type(error).__name__


def _return_expired(resources: Resources) -> int:
    expired = files.return_expired(resources.pool)
    if expired:
        crashed = [path for _, path, crashes in expired if crashes]
        log.warning("leases of a dead worker returned", files=len(expired), crashed=crashed)
    return len(expired)


def _send_eviction(resources: Resources) -> int:
    """Have the cache's bounds held; that may take seconds, so a bulk worker does it."""
    due = cache.eviction_due(resources.pool)
    if due:
        send("foldex.evict", queue=BULK, shown="embedding cache")
    return int(due)


def _wake_tasks(resources: Resources, refresh: Callable[[UUID, UUID], bool], wake: Wake) -> int:
    woken = 0
    tasks.bring_back(resources.pool)
    unplanned = tasks.unplanned(resources.pool)
    for task_id, tool_id in [] if unplanned and crowded(FAST) else unplanned:
        tasks.sent(resources.pool, task_id)
        send_plan(task_id, tool_id)
        woken += 1
    # a message serves whatever task the rows choose: one that waits for a free worker is as good as a new one
    untaken = functools.cache(partial(queued, BULK))
    for task in tasks.open_tasks(resources.pool):
        closed = refresh(task.id, task.index_id)
        if not closed and task.waiting and task.quiet and task.slices < MAX_SLICES:
            room = max(0, MAX_SLICES - task.slices - untaken())
            wake(task.id, room, least=min(1, room))
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
    watch.schedule(resources.pool)
    rest = timedelta(seconds=resources.settings.watch_rest_seconds)
    started = [watch.start(resources.pool, index_id, rest) for index_id in watch.due(resources.pool)]
    for run in started:
        if run is not None:
            send_plan(run.task_id, run.tool_id)
    return len(started)


def _send_strays(resources: Resources) -> int:
    """Have objects deleted that no node names."""
    if not strays.expect_run(resources.pool):
        return 0
    send("foldex.strays", queue=BULK, shown="objects that no node names")
    return 1


def _send_checks(resources: Resources) -> int:
    """Have namespaces compared that nobody looked at for long, or that a search found empty."""
    due = drift.due(resources.pool)
    for index_id in due:
        send("foldex.check", index_id, queue=BULK, shown=f"index {index_id}")
    return len(due)


def _delete_vectors(resources: Resources) -> int:
    """Repeat deletes that were not confirmed, and all of them once no late write can follow any more."""
    by_namespace: dict[tuple[str, str, int], list[Tombstone]] = defaultdict(list)
    for tombstone in chunks.due_tombstones(resources.pool, MAX_TOMBSTONES):
        by_namespace[tombstone.namespace, tombstone.vector_store, tombstone.dimensions].append(tombstone)
    for (namespace, store, dimensions), tombstones in by_namespace.items():
        try:
            resources.store(store, "store").write(namespace, dimensions, deletes=[t.id for t in tombstones])
        except StoreError as error:
            log.warning("vectors not deleted yet", namespace=namespace, code=error.code, reason=error.message)
            continue
        chunks.confirm_deleted(resources.pool, [t.id for t in tombstones])
        chunks.purge_tombstones(resources.pool, [t.id for t in tombstones if t.final])
    return sum(len(tombstones) for tombstones in by_namespace.values())


def _purge_indexes(resources: Resources) -> int:
    """Vectors first, rows last; the index's own row keeps its namespace's name until late writes are impossible."""
    buried = tools.buried(resources.pool)
    for index in buried:
        try:
            resources.store(index.vector_store, index.keyword_index).drop(index.namespace)
        except StoreError as error:
            log.warning("namespace not deleted yet", namespace=index.namespace, code=error.code, reason=error.message)
            continue
        tools.purge(resources.pool, index.id, final=index.final)
    return len(buried)
