"""The tasks that keep indexes in order beside indexing."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import psycopg
import structlog
from celery import Task

from schemas.errors import LeaseLost, StoreError
from worker.app import BULK, app, crowded, send
from worker.state.index import embedding_cache, tools
from worker.state.index.tools import Index
from worker.tasks import failures, process
from worker.tasks.limits import SLICE_SECONDS
from worker.upkeep import fsck
from worker.upkeep.orphans import delete_strays
from worker.upkeep.sweep import sweep as run_sweep
from worker.vectors import VectorStore

log = structlog.get_logger()


class _NoEvents:
    """An event dispatcher that drops the event that a message was sent."""

    def publish(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class Sweep(Task):  # type: ignore[misc] # Celery has no types
    """The task that the clock sends every second. Flower gets no events of it, since it would list little else."""

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Send the message unless the queue is crowded.

        Only a worker of the queue removes expired messages, and that worker may be gone for days.
        """
        if crowded(options["queue"]):
            return None
        return super().apply_async(*args, event_dispatcher=_NoEvents(), **options)


@app.task(name="foldex.sweep", base=Sweep, send_events=False)
def sweep() -> dict[str, Any]:
    """Repair what crashes and lost messages left behind."""
    return failures.skip_without_postgres("sweep skipped", lambda: run_sweep(process.resources().sweeping))


@app.task(name="foldex.evict")
def evict() -> dict[str, Any]:
    """Evict cached vectors beyond the embedding cache's limits."""
    return failures.skip_without_postgres("embedding cache not checked", _evict)


def _evict() -> dict[str, Any]:
    r = process.resources()
    limits = {"spare": r.settings.embedding_cache_spare, "maximum": r.settings.embedding_cache_max}
    evicted = embedding_cache.evict(r.pool, **limits)
    log.info("cached vectors evicted", vectors=evicted)
    return {"evicted": evicted}


@app.task(name="foldex.optimize")
def optimize(index_id: str) -> dict[str, Any]:
    """Compact the vectors of an index."""
    index = tools.index(process.resources().pool, UUID(index_id))
    if index is None:
        return {"skipped": "deleted"}
    started = time.monotonic()
    _store(index).optimize(index.namespace)
    seconds = round(time.monotonic() - started, 2)
    # last, so that the task's result includes the comparison
    return {"namespace": index.namespace, "seconds": seconds, **_check(index)}


@app.task(name="foldex.check")
def check(index_id: str) -> dict[str, Any]:
    """Check whether a namespace still holds what it should."""
    index = tools.index(process.resources().pool, UUID(index_id))
    return {"skipped": "deleted"} if index is None else _check(index)


@app.task(name="foldex.strays")
def strays() -> dict[str, Any]:
    """Delete objects that no node refers to: those of aborted uploads and of deleted nodes."""
    return failures.skip_without_postgres("strays not deleted yet", _delete_strays)


def _delete_strays() -> dict[str, Any]:
    deleted, more = delete_strays(process.resources(), SLICE_SECONDS[BULK])
    if deleted:
        log.info("objects deleted that no node refers to", objects=deleted)
    if more:
        send("foldex.strays", queue=BULK, shown="more objects that no node refers to")
    return {"deleted": deleted, "more": more}


def _check(index: Index) -> dict[str, Any]:
    """Start a task if the namespace has lost vectors. Failures do not matter, because the sweep asks again."""
    try:
        started = fsck.check(process.resources().pool, _store(index), index)
    except (LeaseLost, StoreError, psycopg.OperationalError) as error:
        log.warning("namespace not compared", namespace=index.namespace, error=str(error))
        return {"compared": False}
    return {"compared": True} if started is None else {"lost vectors": "task started", "task": str(started)}


def _store(index: Index) -> VectorStore:
    return process.resources().store(index.vector_store, index.keyword_index)
