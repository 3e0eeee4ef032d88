"""The tasks that maintain indexes besides indexing."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import structlog
from celery import Task, signals
from kombu.exceptions import OperationalError

from schemas.errors import LeaseLost, StoreError
from worker.app import BULK, SWEEP_INTERVAL_SECONDS, app, send
from worker.state import open_work
from worker.state.access import keys
from worker.state.content import nodes
from worker.state.index import embedding_cache, leftovers, tools
from worker.state.index.tools import Index
from worker.tasks import failures, process
from worker.tasks.compaction import compact_in_turn
from worker.tasks.failures import Result
from worker.tasks.limits import SLICE_SECONDS
from worker.upkeep import fsck
from worker.upkeep.orphans import delete_strays
from worker.upkeep.sweep import sweep as run_sweep
from worker.vectors import VectorStore

#: Time without a sweep after which a process sweeps between two of its tasks.
LATE = timedelta(seconds=3 * SWEEP_INTERVAL_SECONDS)
#: Maximum number of cached vectors, and maximum number of these whose text no index contains any more.
MAX_CACHED, MAX_SPARE = 2_000_000, 200_000
#: Time after a sweep in which a message for another one has no effect.
JUST_NOW = timedelta(seconds=SWEEP_INTERVAL_SECONDS / 2)

log = structlog.get_logger()


@app.task(name="foldex.sweep", base=failures.ShownTask, send_events=False)
def sweep() -> Result:
    """Repair the consequences of crashes and lost messages."""
    return failures.contain_upkeep("sweep skipped", _sweep_in_turn)


def _sweep_in_turn() -> Result:
    """Sweep, unless another message led to a sweep just now: queues have messages of their own, and may be long."""
    process.resources().folders.note_host()
    r = process.resources().sweeping
    return {"skipped": "swept just now"} if open_work.is_swept(r.pool, JUST_NOW) else run_sweep(r)


class _SweepLooks:
    """The last time at which this process checked whether a sweep is late."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def is_due(self) -> bool:
        """Return whether to check again now. If so, record the time."""
        now = time.monotonic()
        is_due = now - self._last >= SWEEP_INTERVAL_SECONDS
        self._last = now if is_due else self._last
        return is_due


_looks = _SweepLooks()


@signals.task_postrun.connect
def _sweep_if_late(task: Task, **_: Any) -> None:
    """Sweep after a task if the last sweep was long ago: in long queues, the messages of sweeps wait."""
    if task.name != sweep.name and not task.request.is_eager and _looks.is_due():
        # messages of the sweep do not belong to the request that led to this task
        structlog.contextvars.clear_contextvars()
        failures.contain_upkeep("sweep skipped", _sweep_late)


def _sweep_late() -> Result:
    r = process.resources()
    return run_sweep(r.sweeping) if open_work.is_sweep_late(r.pool, LATE) else {"skipped": "not late"}


class Upkeep(failures.ShownTask):
    """A task that mostly finds nothing to do. Flower gets the events of a run only if it has an effect, or fails."""

    send_events = False
    #: Key of the result whose value says whether the run had an effect.
    shown_if = ""

    def __call__(self, *args: Any) -> Result:
        """Run, and send the events to Flower. Raises `RunFailed`."""
        started = time.time()
        try:
            result: Result = self.run(*args)
        except failures.RunFailed as error:
            self._show(started, "task-failed", exception=repr(error), traceback=error.trace)
            raise
        if result.get(self.shown_if):
            self._show(started, "task-succeeded", result=repr(result), runtime=time.time() - started)
        return result

    def _show(self, started: float, ended: str, **fields: Any) -> None:
        if self.request.is_eager:
            return
        shown = {"name": self.name, "args": self.request.argsrepr, "kwargs": "{}"}
        try:
            self.send_event("task-received", timestamp=started, **shown)
            self.send_event("task-started", timestamp=started)
            self.send_event(ended, **fields)
        except OperationalError as error:
            log.warning("broker does not answer; Flower does not show this task", task=self.name, error=str(error))


@app.task(name="foldex.evict", base=Upkeep, shown_if="evicted")
def evict() -> Result:
    """Evict cached vectors beyond the embedding cache's limits, and delete ended keys and unused access lists."""
    return failures.contain_upkeep("embedding cache not checked", _evict)


def _evict() -> Result:
    r = process.resources()
    evicted, more = embedding_cache.evict(r.pool, spare=MAX_SPARE, maximum=MAX_CACHED, seconds=SLICE_SECONDS[BULK])
    if evicted:
        log.info("cached vectors evicted", vectors=evicted)
    if more:
        send("foldex.evict", queue=BULK, shown="more of the embedding cache", quiet=True)
    forgotten = keys.forget_ended(r.pool) + nodes.forget_unused_lists(r.pool)
    return {"evicted": evicted, "more": more, "forgotten": forgotten}


@app.task(name="foldex.optimize", base=failures.ShownTask)
def optimize(index_id: str) -> Result:
    """Compact the vectors of an index."""
    return failures.contain_upkeep("vectors not compacted", partial(_optimize, UUID(index_id)))


def _optimize(index_id: UUID) -> Result:
    index = tools.index(process.resources().pool, index_id)
    if index is None:
        return {"skipped": "deleted"}
    started = time.monotonic()
    with process.idle.work():
        has_turn = compact_in_turn(process.resources(), index)
    if not has_turn:
        send("foldex.optimize", index_id, queue=BULK, shown=f"index {index_id}", quiet=True)
        return {"left": "to another process"}
    # last, so that the task's result includes the comparison
    return {
        "namespace": index.namespace,
        "seconds": round(time.monotonic() - started, 2),
        **_compare(index, fsck.RUN_BYTES),
    }


@app.task(name="foldex.check", base=Upkeep, shown_if="lost vectors")
def check(index_id: str) -> Result:
    """Check whether a namespace still has its expected contents, and delete rows of files removed long ago."""
    return failures.contain_upkeep("namespace not compared", partial(_check, UUID(index_id)))


def _check(index_id: UUID) -> Result:
    leftovers.forget_removed(process.resources().pool, index_id)
    index = tools.index(process.resources().pool, index_id)
    if index is None:
        return {"skipped": "deleted"}
    with process.idle.work():
        return _compare(index, fsck.CHECK_BYTES)


@app.task(name="foldex.strays", base=Upkeep, shown_if="deleted")
def strays() -> Result:
    """Delete objects that no node refers to: objects of aborted uploads and of deleted nodes."""
    return failures.contain_upkeep("strays not deleted yet", _delete_strays)


def _delete_strays() -> Result:
    deleted, more = delete_strays(process.resources(), SLICE_SECONDS[BULK])
    if deleted:
        log.info("objects deleted that no node refers to", objects=deleted)
    if more:
        send("foldex.strays", queue=BULK, shown="more objects that no node refers to", quiet=True)
    return {"deleted": deleted, "more": more}


def _compare(index: Index, verified_bytes: int) -> Result:
    """Start a task if the namespace has lost vectors. Failures do not matter, because the sweep asks again."""
    try:
        started = fsck.check(process.resources().pool, _store(index), index, verified_bytes)
    except (LeaseLost, StoreError, psycopg.OperationalError) as error:
        log.warning("namespace not compared", namespace=index.namespace, error=str(error))
        return {"compared": False}
    return {"compared": True} if started is None else {"lost vectors": "task started", "task": str(started)}


def _store(index: Index) -> VectorStore:
    return process.resources().store_of(index)
