"""Leaves work to other workers if this one cannot do it for its own settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import structlog

from schemas.errors import FoldexError
from worker.hosts.needs import NeededSettings, needs_of
from worker.resources import Resources
from worker.state import hosts
from worker.state.hosts import Need
from worker.state.index import task_notes
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.tasks import process

#: The result of a message whose work is left to another worker.
LEFT: dict[str, object] = {"left": "to a worker with other settings"}

Warn = Callable[[Pool, UUID, str], None]

log = structlog.get_logger()


def is_left(pool: Pool, work_id: UUID) -> bool:
    """Return whether this worker has just left work to others."""
    me = process.me()
    return me is not None and hosts.is_declined(pool, me, work_id)


def leave_if_lacking(pool: Pool, work_id: UUID, queues: Sequence[str], needs: NeededSettings, warn: Warn) -> bool:
    """Leave work if this worker lacks a setting that another one has. Returns whether it did."""
    me, names = process.me(), needs.indispensable
    if me is None or not process.lacks(names):
        return False
    found = hosts.obstacle(pool, me, Need(work_id, queues, names), unset=True)
    if found is None:
        return False
    _leave(pool, me, work_id, warn, f"{found.setting} is not set for {found.node}.")
    return True


def leave_after(
    pool: Pool, work_id: UUID, queues: Sequence[str], needs: NeededSettings, warn: Warn, error: FoldexError
) -> bool:
    """Leave failed work if another worker has other settings with which it may succeed."""
    me, names = process.me(), needs.of(error)
    if me is None or not names:
        return False
    found = hosts.obstacle(pool, me, Need(work_id, queues, names), unset=False)
    if found is None:
        return False
    _leave(pool, me, work_id, warn, f"{found.node} has another {found.setting}, and failed: {error.message}")
    return True


def leave_failed(
    r: Resources, task_id: UUID, index: Index, queues: Sequence[str], error: FoldexError
) -> FoldexError | None:
    """Leave a failed task to workers that may succeed. Returns the error that ends it, or None if it was left."""
    if leave_after(r.pool, task_id, queues, needs_of(index), task_notes.warn, error):
        return None
    return r.folders.leave(task_id, index, queues, error)


def _leave(pool: Pool, me: UUID, work_id: UUID, warn: Warn, reason: str) -> None:
    log.warning("left to another worker", reason=reason)
    hosts.decline(pool, me, work_id)
    warn(pool, work_id, f"Waiting for another worker: {reason}")
