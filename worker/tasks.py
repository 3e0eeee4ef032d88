"""The Celery tasks: lease, call a step, record. A message carries nothing of value but an id."""

from __future__ import annotations

import functools
import math
import multiprocessing
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg
import structlog
from celery import Task, signals
from psycopg.errors import ProgramLimitExceeded

from schemas.errors import FoldexError, LeaseLost, PlanCrashed, SliceCrashed, SliceOver, StoreError
from worker import logs
from worker.app import BULK, FAST, MAX_SLICES, SMALL_TASK, app, crowded, send, send_plan
from worker.index.catalog import Listing, list_folder
from worker.index.lease import Lease, leased
from worker.index.pipeline import index_files
from worker.index.prepare import Draft, Run
from worker.machine.privacy import close_home, keep_private
from worker.parse import Limits
from worker.parse.sandbox import client as sandbox
from worker.resources import Resources, preload
from worker.settings import Settings
from worker.state.index import embedding_cache, files, tasks, tools
from worker.state.index.tasks import Running
from worker.state.postgres import Pool, alone
from worker.upkeep import fsck
from worker.upkeep.orphans import delete_strays
from worker.upkeep.sweep import sweep as run_sweep
from worker.vectors import VectorStore

#: Seconds after which a slice hands over to the next; short on the fast queue, where the sweep waits too.
SLICE_SECONDS = {FAST: 1.0, BULK: 20.0}
#: Seconds after which an embedding slice starts no further request.
EMBED_SECONDS = {FAST: 5.0, BULK: 60.0}
#: Maximum and minimum number of files per claim. In between, a claim takes one file per text that fits the requests in
#: flight, and no more bytes than they hold: more would only keep files from other workers.
CLAIM_FILES, MIN_CLAIM_FILES = 192, 32
#: Minimum bytes of text per token.
BYTES_PER_TOKEN = 3
#: Seconds before work is retried after a transient error.
RETRY_SECONDS = 3.0
#: Maximum length in characters of an unexpected exception in a task's message.
MAX_FAULT = 300
#: Pending files for each further worker that is woken.
FILES_PER_SLICE = 4

log = structlog.get_logger()


@functools.cache
def resources() -> Resources:
    """Return this process's connections. First called in a task, so after the fork."""
    return Resources(Settings())


@signals.setup_logging.connect
def _configure_logs(**_: Any) -> None:
    logs.configure(Settings().log_level)


@signals.worker_init.connect
def _check_semaphores(**_: Any) -> None:
    """Exit with one sentence where Celery's pool would exit with a traceback."""
    try:
        multiprocessing.Lock()
    except OSError as error:
        place = "/dev/shm" if sys.platform == "linux" else "the place of semaphores"  # noqa: S108 - where Linux keeps them
        raise SystemExit(f"{place} is not writable ({error.strerror}); worker processes need it") from None


@signals.worker_init.connect
def _keep_private(**_: Any) -> None:
    """Make files private; the pool's processes inherit it."""
    settings = Settings()
    keep_private(settings.debuggers)
    close_home(settings.foldex_home)


@signals.celeryd_after_setup.connect
def _prepare_parsing(**_: Any) -> None:
    refused = sandbox.prepare()
    if refused:
        log.warning("files are parsed with less protection: the system refuses some of it", refused=refused)


@signals.worker_process_shutdown.connect
def _stop_parsing(**_: Any) -> None:
    sandbox.stop(wait=False)


@signals.worker_init.connect
def _import_before_fork(**_: Any) -> None:
    preload(Settings())


@app.task(name="foldex.plan")
def plan(task_id: str) -> dict[str, Any]:
    """List a slice of the task's folder; indexing starts with the first page."""
    return _border(UUID(task_id), _plan)


@app.task(name="foldex.index", bind=True)
def index(self: Any, task_id: str) -> dict[str, Any]:
    """Index claimed files until the slice's time is up."""
    if self.request.delivery_info.get("routing_key") == FAST:
        return _border(UUID(task_id), functools.partial(_index_small, node=self.request.hostname))
    return _border(UUID(task_id), _index_fairly)


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
    return _or_skipped("sweep skipped", _sweep)


def _sweep() -> dict[str, Any]:
    swept = resources().sweeping
    refresh = functools.partial(_refresh, pool=swept.pool, wait=False)
    return run_sweep(swept, refresh, functools.partial(wake, pool=swept.pool))


@app.task(name="foldex.evict")
def evict() -> dict[str, Any]:
    """Evict cached vectors beyond the embedding cache's limits."""
    return _or_skipped("cache not looked at", _evict)


def _evict() -> dict[str, Any]:
    s = resources().settings
    evicted = embedding_cache.evict(resources().pool, spare=s.embedding_cache_spare, maximum=s.embedding_cache_max)
    log.info("cached vectors evicted", vectors=evicted)
    return {"evicted": evicted}


@app.task(name="foldex.optimize")
def optimize(index_id: str) -> dict[str, Any]:
    """Compact the vectors of an index."""
    found = tools.index(resources().pool, UUID(index_id))
    if found is None:
        return {"skipped": "deleted"}
    started = time.monotonic()
    _store(found).optimize(found.namespace)
    seconds = round(time.monotonic() - started, 2)
    # last, so that the task's result includes the comparison
    return {"namespace": found.namespace, "seconds": seconds, **_check(found)}


@app.task(name="foldex.check")
def check(index_id: str) -> dict[str, Any]:
    """Check whether a namespace still holds what it should."""
    found = tools.index(resources().pool, UUID(index_id))
    return {"skipped": "deleted"} if found is None else _check(found)


@app.task(name="foldex.strays")
def strays() -> dict[str, Any]:
    """Delete objects that no node refers to: those of aborted uploads and of deleted nodes."""
    return _or_skipped("strays not deleted yet", _delete_strays)


def _delete_strays() -> dict[str, Any]:
    deleted, more = delete_strays(resources(), SLICE_SECONDS[BULK])
    if deleted:
        log.info("objects deleted that no node names", objects=deleted)
    if more:
        send("foldex.strays", queue=BULK, shown="more objects that no node names")
    return {"deleted": deleted, "more": more}


def _or_skipped(message: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run upkeep. Since it is sent again anyway, a Postgres failure only logs a line."""
    try:
        return work()
    except psycopg.OperationalError as error:
        log.warning(message, cause=_said(error), error=str(error))
        return {"skipped": "postgres"}


def _check(found: tools.Index) -> dict[str, Any]:
    """Start a task if the namespace has lost vectors. Failures do not matter, because the sweep asks again."""
    try:
        started = fsck.check(resources().pool, _store(found), found)
    except (LeaseLost, StoreError, psycopg.OperationalError) as error:
        log.warning("namespace not compared", namespace=found.namespace, error=str(error))
        return {"compared": False}
    return {"compared": True} if started is None else {"lost vectors": "task started", "task": str(started)}


def _store(found: tools.Index) -> VectorStore:
    return resources().store(found.vector_store, found.keyword_index)


def _border(task_id: UUID, work: Callable[[UUID], dict[str, Any]]) -> dict[str, Any]:
    """Run a task and let no exception reach Celery, which could only guess; the task's row records what happened."""
    structlog.contextvars.bind_contextvars(task_id=str(task_id))
    try:
        return work(task_id)
    except LeaseLost as error:
        return {"ended": error.code}
    except psycopg.OperationalError as error:
        log.warning("waiting for the sweep", cause=_said(error), error=str(error))
        return {"waiting": "postgres"}
    except MemoryError:
        # Celery would stop the whole worker; instead the lease expires and the files are tried again
        log.exception("out of memory")
        return {"waiting": "memory"}
    except Exception as error:  # a bug of ours must neither end the worker nor go unreported
        log.exception("slice failed")
        tasks.warn(resources().pool, task_id, f"Waiting: {type(error).__name__} in a worker, tried again; see its log.")
        return {"error": type(error).__name__}
    finally:
        structlog.contextvars.clear_contextvars()


def _said(error: psycopg.OperationalError) -> str:
    """Say what failed: a deadlock or a shutdown is an answer and has a different remedy from silence."""
    return f"Postgres says {type(error).__name__}" if error.sqlstate else "Postgres does not answer"


def _plan(task_id: UUID) -> dict[str, Any]:
    r = resources()
    with leased(r.settings.database_url, task_id) as lease:
        plan = tasks.begin_plan(r.pool, task_id, lease.owner)
        found = plan and tools.index(r.pool, plan.index_id)
        if not plan or not found:
            return {"nothing": "to list"}
        structlog.contextvars.bind_contextvars(tool_id=str(plan.tool_id))
        log.info("planning", namespace=found.namespace)
        try:
            complete = _list(plan, found, lease)
        except FoldexError as error:
            tasks.release_plan(r.pool, task_id, lease.owner)
            return _failed(plan, error, lambda seconds: send_plan(task_id, plan.tool_id, seconds))
        except Exception as error:
            _plan_ended(plan, lease, error)
            raise
        if not complete:
            tasks.release_plan(r.pool, task_id, lease.owner)
            send_plan(task_id, plan.tool_id)
    if complete and not _refresh(task_id, plan.index_id):
        wake(task_id)
    return {"listed": complete}


def _list(plan: tasks.Plan, found: tools.Index, lease: Lease) -> bool:
    r = resources()
    if plan.deaths >= tasks.MAX_PLAN_DEATHS:
        last = f"the last error was {plan.fault}" if plan.fault else "they were killed, or ran out of memory"
        raise PlanCrashed(
            f"{plan.deaths} workers in a row failed to list this folder: {last}. See the workers' logs, then reindex."
        )
    if plan.list_cursor is None:
        fsck.before_listing(r.pool, _store(found), found, plan.id)
    listing = Listing(plan, found, r.source_of(found), r.pool, lease)
    return list_folder(listing, seconds=SLICE_SECONDS[FAST], started=lambda: _started(plan))


def _plan_ended(plan: tasks.Plan, lease: Lease, error: Exception) -> None:
    """Release the listing after an outage.

    After any other error it stays leased until expiry, which counts as a death.
    """
    pool = resources().pool
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, ProgramLimitExceeded):
        with suppress(psycopg.OperationalError):
            tasks.release_plan(pool, plan.id, lease.owner)
    else:
        tasks.note_fault(pool, plan.id, _name(error))


def _slice_ended(task: Running, error: Exception) -> None:
    """Count an unexpected exception.

    End the task after too many, because a bug that hits every file would loop forever.
    """
    pool = resources().pool
    faults = tasks.count_fault(pool, task.id, _name(error))
    if faults >= tasks.MAX_FAULTS:
        reason = f"Indexing failed {faults} times in a row, and no file ended: {_name(error)}."
        _follow(tasks.fail(pool, task.id, task.index_id, SliceCrashed(f"{reason} See the workers' logs, then retry.")))


def _name(error: Exception) -> str:
    """Describe an exception on one line, without long quotations."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_FAULT]


def _started(plan: tasks.Plan) -> None:
    _refresh(plan.id, plan.index_id)
    wake(plan.id)


def _index_small(task_id: UUID, node: str) -> dict[str, Any]:
    """Index in one process per node at a time: a hanging provider must delay neither planning nor the sweep."""
    r = resources()
    with alone(r.settings.database_url, f"small tasks on {node}") as free:
        if not free:
            return {"left": "to another process"}
        done = _index(files.fairest(r.pool, preferred=task_id, most_files=SMALL_TASK) or task_id, FAST)
    # a message that arrived meanwhile found this process busy
    following = None if done.get("more") else files.fairest(r.pool, most_files=SMALL_TASK)
    if following:
        _send_index(tasks.running(r.pool, following), FAST)
    return done


def _index_fairly(task_id: UUID) -> dict[str, Any]:
    """Index the task that the rows choose; the message only says that some task has files."""
    return _index(files.fairest(resources().pool, preferred=task_id) or task_id, BULK)


def _index(task_id: UUID, queue: str) -> dict[str, Any]:
    r = resources()
    task = tasks.running(r.pool, task_id)
    found = task and tools.index(r.pool, task.index_id)
    if not task or not found:
        return {"nothing": "to index"}
    # the rows may have chosen a different task from the message's
    structlog.contextvars.bind_contextvars(task_id=str(task_id), tool_id=str(task.tool_id))
    with leased(r.settings.database_url, task_id) as lease:
        try:
            claimed, more = _index_slice(_run(r, task, found, lease, queue), task, SLICE_SECONDS[queue])
        except FoldexError as error:
            files.release(r.pool, lease.owner)
            return _failed(task, error, lambda seconds: _send_index(task, queue, seconds))
        except psycopg.OperationalError as error:
            # the server may be out of space, say, yet accept this small write; otherwise each failure would look like a
            # process's death
            if not isinstance(error, ProgramLimitExceeded):
                with suppress(psycopg.OperationalError):
                    files.release(r.pool, lease.owner)
            raise
        except Exception as error:
            _slice_ended(task, error)
            raise
    more = not _refresh(task_id, task.index_id) and more
    if more:
        _send_index(tasks.running(r.pool, task_id), queue)
    return {"claimed": claimed, "more": more}


def _index_slice(run: Run, task: Running, seconds: float) -> tuple[int, bool]:
    """Claim and index until the time is up. Returns the number of files done and whether there may be more."""
    deadline = time.monotonic() + seconds
    limits = {"max_files": _claim_files(run), "max_bytes": _claim_bytes(run)}
    done = 0
    waiting: list[Draft] = []
    more = True
    while more:
        claims = files.claim(run.pool, task_id=task.id, index_id=task.index_id, owner=run.lease.owner, **limits)
        more = bool(claims) and time.monotonic() < deadline
        held = len(claims) + len(waiting)
        if not held:
            break
        waiting = index_files(run, claims, waiting, more=more)
        if ended := held - len(waiting):
            tasks.go_on(run.pool, task.id)
            done += ended
            log.info("indexed", files=ended, done=done)
            _refresh(task.id, task.index_id)
    return done, bool(claims)


def _run(r: Resources, task: Running, found: tools.Index, lease: Lease, queue: str) -> Run:
    settings = found.settings
    return Run(
        index=found,
        epoch=task.epoch,
        source=r.source_of(found),
        tokenizer=r.tokenizer(settings.embedder),
        embedder=r.embedder(settings.embedder, explicit_dimensions=settings.explicit_dimensions),
        store=r.store(found.vector_store, found.keyword_index),
        pool=r.pool,
        lease=lease,
        concurrency=r.settings.embedding_concurrency,
        budget=r.budget(settings.embedder),
        embed_seconds=EMBED_SECONDS[queue],
        limits=Limits(
            max_pages=settings.max_pages,
            max_characters=settings.max_characters,
            seconds=r.settings.parse_seconds,
            memory_bytes=r.settings.parse_memory_mb << 20,
            ocr_languages=r.settings.ocr_languages,
        ),
    )


def _claim_files(run: Run) -> int:
    return max(MIN_CLAIM_FILES, min(CLAIM_FILES, run.embedder.max_inputs * run.concurrency))


def _claim_bytes(run: Run) -> int:
    """Bytes that fill the requests in flight about once: more would only delay the first results."""
    most = run.embedder.max_request_tokens
    allowed = run.budget and run.budget.max_request_tokens
    return min(most, allowed or most) * run.concurrency * BYTES_PER_TOKEN


def _failed(task: tasks.Plan | Running, error: FoldexError, again: Callable[[float], object]) -> dict[str, Any]:
    """Retry after transient errors; end the task with the reason of permanent ones."""
    if isinstance(error, LeaseLost):
        raise error
    pool = resources().pool
    if isinstance(error, SliceOver):
        again(0)
        return {"ended": error.code, "more": True}
    if error.retryable:
        log.warning("waiting", code=error.code, reason=error.message)
        tasks.warn(pool, task.id, f"Waiting: {error.message}")
        seconds = max(RETRY_SECONDS, min(float(error.data.get("retry_after") or 0), tasks.LONGEST_WAIT.total_seconds()))
        # the sweep also leaves the task alone until then
        tasks.sent(pool, task.id, seconds)
        again(seconds)
        return {"waiting": error.code}
    log.error("task failed", code=error.code, reason=error.message)
    _follow(tasks.fail(pool, task.id, task.index_id, error))
    return {"error": error.code}


def _refresh(task_id: UUID, index_id: UUID, *, pool: Pool | None = None, wait: bool = True) -> bool:
    closed = tasks.refresh(pool or resources().pool, task_id, index_id, wait=wait)
    if closed:
        # the sweep closes tasks, too, and has no ids bound
        log.info("task closed", task_id=str(task_id), tool_id=str(closed.tool_id))
        send("foldex.optimize", index_id, queue=BULK, shown=f"index {index_id}")
    _follow(closed)
    return closed is not None


def _follow(closed: tasks.Closed | None) -> None:
    if closed and closed.next_task_id:
        send_plan(closed.next_task_id, closed.tool_id)


def wake(task_id: UUID, most: int = MAX_SLICES, *, least: int = 0, pool: Pool | None = None) -> None:
    """Send messages to index a task's files; a small task's go to the fast queue too.

    The bulk queue gets `least` to `most` messages, depending on the number of pending rows. Removals are rows like any
    other. The sweep asks for at least one message, so that a wrong count can delay a task but never strand it.
    """
    pool = pool or resources().pool
    task = tasks.running(pool, task_id)
    if task is None:
        return
    pending = files.count_pending(pool, task.index_id, most=max(most, 1) * FILES_PER_SLICE)
    large = max(least, min(most, math.ceil(pending / FILES_PER_SLICE)))
    small = bool(pending or least) and not task.listing and task.total_files <= SMALL_TASK
    for queue in [FAST] * small + [BULK] * large:
        _send_index(task, queue)
    if small or large:
        tasks.sent(pool, task_id)


def _send_index(task: Running | None, queue: str, countdown: float | None = None) -> None:
    if task is not None:
        shown = f"{task.done_files} of {task.total_files} files done, tool {task.tool_id}, task {task.id}"
        send("foldex.index", task.id, queue=queue, shown=shown, countdown=countdown)
