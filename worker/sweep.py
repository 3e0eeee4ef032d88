"""What keeps everything moving when messages are lost and processes die; any worker runs it, one at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any
from uuid import UUID

import structlog

from schemas.errors import StoreError
from worker.app import MAX_SLICES, send_plan
from worker.resources import Resources
from worker.state import chunks, files, sweeping, tasks, tools
from worker.state.chunks import Tombstone

#: Vectors deleted by one sweep.
MAX_TOMBSTONES = 5000

log = structlog.get_logger()


def sweep(resources: Resources, wake: Callable[[UUID, int], None]) -> dict[str, Any]:
    """One round; does nothing while another process is at it."""
    with sweeping(resources.settings.database_url) as alone:
        if not alone:
            return {"skipped": "another worker sweeps"}
        expired = files.return_expired(resources.pool)
        if expired:
            log.warning("leases of a dead worker returned", files=expired)
        woken = _wake_tasks(resources, wake)
        deleted = _delete_vectors(resources)
        purged = _purge_indexes(resources)
    return {"expired": expired, "woken": woken, "deleted": deleted, "purged": purged}


def _wake_tasks(resources: Resources, wake: Callable[[UUID, int], None]) -> int:
    woken = 0
    for task_id, tool_id in tasks.unplanned(resources.pool):
        tasks.sent(resources.pool, task_id)
        send_plan(task_id, tool_id)
        woken += 1
    for task in tasks.open_tasks(resources.pool):
        closed = tasks.refresh(resources.pool, task.id, task.index_id)
        if not closed and task.waiting and task.quiet and task.slices < MAX_SLICES:
            wake(task.id, MAX_SLICES - task.slices)
            woken += 1
    return woken


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
