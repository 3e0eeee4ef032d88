"""Sends messages for the rows: wakes workers, and starts tasks that were requested or follow others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import UUID

import structlog

from schemas.wording import amount
from worker.app import BULK, FAST, MAX_SLICES, post_plan, send, send_plan
from worker.state.index import files, messages, tasks, tool_actions
from worker.state.index.tasks import ClosedTask, RunningTask
from worker.state.pool import Pool
from worker.state.tree import trees

#: Number of pending files for each further worker that is woken.
FILES_PER_SLICE = 4

log = structlog.get_logger()


def start_indexing(pool: Pool, task_id: UUID, index_id: UUID) -> bool:
    """Wake workers for the files listed so far, or close the task if nothing is left. Returns whether it closed it."""
    closed = close_if_done(pool, task_id, index_id) is not None
    if not closed:
        wake(pool, task_id)
    return closed


def wake(
    pool: Pool, task_id: UUID, max_messages: int = MAX_SLICES, *, min_messages: int = 0, fast: bool = True
) -> dict[str, int]:
    """Send messages to index a task's files; a small task's go to the fast queue too, if `fast`.

    The bulk queue gets `min_messages` to `max_messages` messages, depending on the number of pending rows. Removals are
    rows like any other. The sweep asks for at least one message, so that a wrong count can delay a task but never
    strand it. Returns the number of messages by queue.
    """
    task = tasks.running(pool, task_id)
    if task is None:
        return {}
    pending = files.count_pending(pool, task.index_id, most=max(max_messages, 1) * FILES_PER_SLICE)
    bulk = max(min_messages, min(max_messages, math.ceil(pending / FILES_PER_SLICE)))
    fast = fast and bool(pending or min_messages) and task.is_small
    sent = {FAST: int(fast), BULK: bulk}
    if not (fast or bulk) or not messages.note_sent(pool, task_id):
        return {}
    for queue, number in sent.items():
        for _ in range(number):
            send_index(task, queue)
    return sent


def send_index(task: RunningTask | None, queue: str, countdown: float | None = None) -> None:
    """Send a message to index a task's files, unless the task has ended."""
    if task is not None:
        shown = (
            f"{task.done_files} of {amount(task.total_files or 0, 'file')} done, tool {task.tool_id}, task {task.id}"
        )
        send("foldex.index", task.id, queue=queue, shown=shown, countdown=countdown)


def close_if_done(pool: Pool, task_id: UUID, index_id: UUID, *, wait: bool = True) -> ClosedTask | None:
    """Count a task's files, and close the task if nothing is left. Returns None while it continues.

    Without `wait`, a task is skipped if its row, its project or its index is locked.
    """
    closed = tasks.refresh(pool, task_id, index_id, wait=wait)
    if closed is None:
        return None
    # the sweep closes tasks, too, and has no ids bound
    ids = {"task_id": str(task_id), "tool_id": str(closed.tool_id)}
    if closed.request_id:
        ids["request_id"] = closed.request_id
    log.info("task closed", **ids)
    send("foldex.optimize", index_id, queue=BULK, shown=f"index {index_id}", request_id=closed.request_id)
    send_next(closed)
    trees.start_after_run(pool, index_id)
    return closed


def reindex(
    pool: Pool, tool_id: UUID, *, full: bool = False, allow_removals: bool = False, paths: Sequence[str] | None = None
) -> None:
    """Index the changes in a tool's folder, as `tool_actions.reindex` says. No broker delays the caller."""
    task_id = tool_actions.reindex(pool, tool_id, full=full, allow_removals=allow_removals, paths=paths)
    if task_id is not None:
        post_plan(task_id, tool_id)


def send_next(closed: ClosedTask | None) -> None:
    """Send the message that lists the folder for the task that follows a closed one, if any."""
    if closed and closed.next_task_id:
        send_plan(closed.next_task_id, closed.tool_id)
