"""Sends the messages of open tasks that were lost, and starts the tasks that are due."""

from __future__ import annotations

import functools
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog

from worker import dispatch
from worker.app import BULK, FAST, MAX_SLICES, crowded, queued, send_plan
from worker.resources import Resources
from worker.state.index import changes, tasks
from worker.state.postgres import Pool
from worker.upkeep.flower import show_failed_run
from worker.upkeep.isolation import failing_alone, unless_locked

#: Time before a folder whose task could not be started is tried again.
START_PAUSE = timedelta(minutes=1)

log = structlog.get_logger()


def start_due(resources: Resources) -> int:
    """Start the tasks that changes of folders and schedules call for. Returns the number of folders."""
    rest = timedelta(seconds=resources.settings.watch_rest_seconds)
    changes.schedule(resources.pool)
    due = changes.due(resources.pool)
    for index_id in due:
        with failing_alone("a run could not be started yet", index_id=str(index_id)):
            _start(resources.pool, index_id, rest)
            continue
        changes.postpone(resources.pool, index_id, START_PAUSE)
    return len(due)


def _start(pool: Pool, index_id: UUID, rest: timedelta) -> None:
    started = changes.start(pool, index_id, rest)
    if started is not None:
        send_plan(started.task_id, started.tool_id)


def wake_tasks(resources: Resources) -> int:
    """Send the messages that open tasks lack, and close those that are done. Returns the number of tasks woken."""
    pool = resources.pool
    tasks.bring_back(pool)
    return _send_plans(pool) + _wake_workers(pool)


def _send_plans(pool: Pool) -> int:
    unplanned = tasks.unplanned(pool)
    sent = 0
    for task_id, tool_id in [] if unplanned and crowded(FAST) else unplanned:
        if tasks.sent_unless_held(pool, task_id):
            send_plan(task_id, tool_id)
            sent += 1
    return sent


def _wake_workers(pool: Pool) -> int:
    woken = 0
    # a message serves whatever task the rows choose, so one waiting for a free worker is as good as a new one
    untaken = functools.cache(partial(queued, BULK))
    for task in tasks.open_tasks(pool):
        closed = unless_locked(partial(dispatch.close_if_done, pool, task.id, task.index_id, wait=False))
        if closed and closed.failure:
            show_failed_run(task.id, closed.tool_id, closed.failure)
        if not closed and task.waiting and task.quiet and task.slices < MAX_SLICES:
            room = max(0, MAX_SLICES - task.slices - untaken())
            unless_locked(partial(dispatch.wake, pool, task.id, room, min_messages=min(1, room)))
            woken += 1
    return woken


def restart_stalled(resources: Resources) -> int:
    """Report open tasks without a worker, and send all their messages again, whatever was sent before."""
    pool = resources.pool
    stalled = tasks.stalled(pool)
    if stalled and tasks.any_work(pool):
        for task in stalled:
            tasks.warn(pool, task.id, tasks.BUSY)
        return 0
    for task in stalled:
        log.error(
            "no worker is working on an open task; sending all its messages again",
            task_id=str(task.id),
            tool_id=str(task.tool_id),
            status=task.status,
            listing=task.listing,
            open_files=tasks.open_files(pool, task.index_id),
            plan_until=str(task.plan_until),
            sent_at=str(task.sent_at),
            refreshed_at=str(task.refreshed_at),
            queued={queue: queued(queue) for queue in (FAST, BULK)},
        )
        if task.listing:
            send_plan(task.id, task.tool_id)
        dispatch.wake(pool, task.id, MAX_SLICES, min_messages=MAX_SLICES)
    return len(stalled)
