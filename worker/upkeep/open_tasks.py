"""Sends lost messages of open tasks again, and starts the tasks that are due."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog

from worker import dispatch
from worker.app import BULK, FAST, MAX_SLICES, MAX_WAITING, count_queued, crowded, send_plan
from worker.resources import Resources
from worker.state.index import (
    changes,
    counting,
    files,
    index_switch,
    leftovers,
    messages,
    task_notes,
    tasks,
    tool_actions,
)
from worker.state.pool import Pool
from worker.upkeep.flower import show_failed_run
from worker.upkeep.isolation import isolate_failure, unless_locked

#: Time before a folder is tried again whose task could not be started.
START_PAUSE = timedelta(minutes=1)
#: Maximum number of tasks that one sweep closes, and of stalled ones that it restarts.
MAX_CLOSED = 200
MAX_RESTARTED = 20

log = structlog.get_logger()


def start_due(resources: Resources) -> int:
    """Start the tasks due after changes of folders and by schedules. Returns the number of folders."""
    rest = timedelta(seconds=resources.settings.watch_rest_seconds)
    changes.schedule(resources.pool)
    due = changes.due(resources.pool)
    for index_id in due:
        with isolate_failure("a run could not be started yet", index_id=str(index_id)):
            _start(resources.pool, index_id, rest)
            continue
        changes.postpone(resources.pool, index_id, START_PAUSE)
    return len(due)


def _start(pool: Pool, index_id: UUID, rest: timedelta) -> None:
    started = changes.start(pool, index_id, rest)
    if started is not None:
        send_plan(started.task_id, started.tool_id)


def wake_tasks(resources: Resources) -> int:
    """Send the missing messages of open tasks, and close finished tasks. Returns the number of tasks woken."""
    pool = resources.pool
    tasks.bring_back(pool)
    counting.refresh_due(pool)
    _close_done(pool)
    _end_stopped(pool)
    messages.take_up_freed(pool)
    return _send_plans(pool) + _wake_workers(pool)


def _send_plans(pool: Pool) -> int:
    unplanned = messages.list_unplanned(pool, MAX_WAITING)
    sent = 0
    for task_id, tool_id in [] if unplanned and crowded(FAST) else unplanned:
        if messages.note_sent(pool, task_id):
            send_plan(task_id, tool_id)
            sent += 1
    return sent


def _close_done(pool: Pool) -> None:
    for task_id, index_id in tasks.list_done(pool, MAX_CLOSED):
        closed = unless_locked(partial(dispatch.close_if_done, pool, task_id, index_id, wait=False))
        if closed and closed.failure:
            show_failed_run(task_id, closed.tool_id, closed.failure)


def _end_stopped(pool: Pool) -> None:
    """End tasks that a cancel or a delete left open because their rows were locked."""
    for task_id, index_id in index_switch.stopping(pool, MAX_CLOSED):
        unless_locked(partial(tool_actions.end_stopped, pool, task_id, index_id))


def _wake_workers(pool: Pool) -> int:
    """Send messages until as many wait as slices are at work.

    A message serves whatever task the rows select, so one that waits for a free worker is as good as a new one. As long
    as the workers take all messages, each round doubles the slices.
    """
    waiting = messages.waiting(pool, most_slices=MAX_SLICES, limit=MAX_WAITING)
    if not waiting:
        return 0
    room = {
        BULK: max(MAX_SLICES, messages.count_slices(pool)) - count_queued(BULK),
        FAST: MAX_SLICES - count_queued(FAST),
    }
    woken = 0
    for task in waiting:
        bulk, fast = max(0, min(task.most - task.slices, room[BULK])), task.is_small and room[FAST] > 0
        if not bulk and not fast:
            continue
        wake = partial(dispatch.wake, pool, task.id, bulk, min_messages=min(1, bulk), fast=fast)
        for queue, sent in (unless_locked(wake) or {}).items():
            room[queue] -= sent
        woken += 1
    return woken


def tidy(resources: Resources) -> int:
    """Return files of ended tasks, and delete their listings, in parts: there may be millions of rows."""
    return leftovers.tidy(resources.pool)


def restart_stalled(resources: Resources) -> int:
    """Report open tasks without a worker, and send all their messages again, regardless of earlier messages."""
    pool = resources.pool
    busy = files.any_work(pool)
    stalled = task_notes.find_stalled(pool, limit=counting.MAX_COUNTED if busy else MAX_RESTARTED)
    if busy:
        task_notes.warn_all(pool, [task.id for task in stalled], tasks.BUSY)
        return 0
    for task in stalled:
        log.error(
            "no worker is working on an open task; sending all its messages again",
            task_id=str(task.id),
            tool_id=str(task.tool_id),
            status=task.status,
            listing=task.listing,
            open_files=files.open_files(pool, task.index_id),
            plan_until=str(task.plan_until),
            sent_at=str(task.sent_at),
            counted_at=str(task.counted_at),
            queued={queue: count_queued(queue) for queue in (FAST, BULK)},
        )
        if task.listing:
            send_plan(task.id, task.tool_id)
        dispatch.wake(pool, task.id, MAX_SLICES, min_messages=MAX_SLICES)
    return len(stalled)
