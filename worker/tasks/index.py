"""The task that indexes claimed files in slices."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import structlog

from schemas.errors import FoldexError, SliceCrashed
from worker import dispatch
from worker.app import BULK, FAST, app
from worker.hosts.needs import needs_of
from worker.index.lease import Lease, open_lease
from worker.index.pipeline import TurnResult, index_slice
from worker.index.run import IndexRun
from worker.index.spending import Spending
from worker.machine.logs import bind_run
from worker.parse import Limits
from worker.resources import Resources
from worker.state.exclusive import try_exclusive
from worker.state.index import counting, files, messages, task_notes, tasks, tools, turns
from worker.state.index.tasks import RunningTask
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.tasks import failures, leaving, process
from worker.tasks.compaction import CompactionTurns
from worker.tasks.failures import Result
from worker.tasks.limits import EMBED_SECONDS, SLICE_SECONDS

#: Seconds between two checks of locked files: no claim takes as long.
HELD_SECONDS = 0.3
#: Seconds between two checks, while vectors are written, for files that wait for their words.
LOOK_SECONDS = 0.5
#: Seconds between two attempts to write words of other tasks if one wrote none: files may need their vectors at once.
REST_SECONDS = 3.0

log = structlog.get_logger()
_turns = CompactionTurns()


@app.task(name="foldex.index", base=failures.ShownTask, bind=True)
def index(self: Any, task_id: str) -> Result:
    """Index claimed files until the slice's time is up."""
    if self.request.delivery_info.get("routing_key") == FAST:
        return failures.contain(UUID(task_id), functools.partial(_index_small, node=self.request.hostname))
    return failures.contain(UUID(task_id), _index_fairly)


def _index_small(task_id: UUID, node: str) -> Result:
    """Index in one process per node at a time: a hanging provider must delay neither planning nor the sweep."""
    r = process.resources()
    with try_exclusive(r.settings.session_url, f"small tasks on {node}") as free:
        if not free:
            return {"left": "to another process"}
        with process.idle.work():
            result = _serve(r.pool, task_id, FAST, only_small=True)
    # a message that arrived in between found this process busy
    following = None if result.get("more") else _due(r, only_small=True)
    if following:
        dispatch.send_index(tasks.running(r.pool, following), FAST)
    return result


def index_due(node: str) -> Result:
    """Index a slice of the small task that is due, if any; see `_index_small`."""
    due = _due(process.resources(), only_small=True)
    return {} if due is None else _index_small(due, node)


def _index_fairly(task_id: UUID) -> Result:
    """Index the task that the rows select; the message only says that some task has files."""
    # a slice frees hundreds of megabytes, and this process may not index again for hours
    with process.idle.work():
        return _serve(process.resources().pool, task_id, BULK)


def _serve(pool: Pool, task_id: UUID, queue: str, *, only_small: bool = False) -> Result:
    """Index the fairest task, or the next one while tasks are locked: the message is not only for that one."""
    work = functools.partial(_index, queue=queue)
    r = process.resources()
    chosen = _due(r, only_small=only_small, preferred=task_id)
    if chosen is None:
        if leaving.is_left(pool, task_id):
            return leaving.LEFT
        if r.leave_if_out_of_reach(task_id):
            return failures.ELSEWHERE
        chosen = task_id
    result, met = failures.unless_locked(work, chosen), {chosen}
    while result is failures.LOCKED:
        following = _due(r, only_small=only_small)
        if following is None or following in met:
            break
        result = failures.unless_locked(work, following)
        met.add(following)
    return result


def _due(r: Resources, *, only_small: bool, preferred: UUID | None = None) -> UUID | None:
    """Return the task that is due for this worker, of those that it can do."""
    return turns.fairest(r.pool, preferred=preferred, only_small=only_small, reach=r.reach(process.me()))


def _index(task_id: UUID, queue: str) -> Result:
    r = process.resources()
    task = tasks.running(r.pool, task_id)
    index = task and tools.index(r.pool, task.index_id)
    if not task or not index:
        return {"nothing": "to index"}
    bind_run(task.id, task.tool_id, task.request_id)
    queues = (FAST, BULK) if task.is_small else (BULK,)
    if leaving.leave_if_lacking(r.pool, task_id, queues, needs_of(index), task_notes.warn):
        return _leave(r.pool, task_id)
    turns.take(r.pool, index.project_id, "index")
    with open_lease(r.settings.database, task_id) as lease:
        try:
            batches = index_slice(_open_run(r, task, index, lease, queue), task_id, SLICE_SECONDS[queue])
            if queue == BULK:
                batches = _turns.compacting(r, index, task_id, batches)
            finished, more = _record(r.pool, task, batches)
        except FoldexError as error:
            files.release(r.pool, lease.owner)
            ending = leaving.leave_failed(r, task_id, index, queues, error)
            if ending is None:
                return _leave(r.pool, task_id)
            ended = failures.settle(r.pool, task, ending)
            if ended.retry_seconds is not None:
                dispatch.send_index(task, queue, ended.retry_seconds)
            return ended.result
        except Exception as error:  # a bug of ours must be counted, or the task would be tried forever
            _record_fault(r.pool, task, lease, error)
            raise
    closed = dispatch.close_if_done(r.pool, task_id, task.index_id)
    more = more and not closed
    if not finished and not more and not closed and _are_held(r.pool, task_id):
        messages.pass_over(r.pool, task_id)
        return failures.LOCKED
    if more:
        dispatch.send_index(tasks.running(r.pool, task_id), queue)
    # a slice without files did not cause the end of the task
    failure = failures.outcome(r.pool, task_id) if finished or closed else {}
    return {"claimed": finished, "more": more, **failure}


def _leave(pool: Pool, task_id: UUID) -> Result:
    """Wake a worker of each queue, because one with the settings may be in either."""
    dispatch.wake(pool, task_id, 1, min_messages=1)
    return leaving.LEFT


def _are_held(pool: Pool, task_id: UUID) -> bool:
    """Return whether all waiting files stay locked; another claim locks some for a moment."""
    if not files.are_held(pool, task_id):
        return False
    time.sleep(HELD_SECONDS)
    return files.are_held(pool, task_id)


def _record(pool: Pool, task: RunningTask, batches: Iterable[TurnResult]) -> tuple[int, bool]:
    """Count each batch into the task. Returns the number of files done and whether there may be more."""
    finished, more = 0, False
    for batch in batches:
        more = batch.more
        if batch.finished:
            task_notes.clear_warning(pool, task.id)
            finished += batch.finished
            log.info("indexed", files=batch.finished, done=finished)
            # whether the task is done is only checked after the last claim
            counting.note_progress(pool, task.id)
    return finished, more


def _words_wait(r: Resources, *, only_small: bool) -> Callable[[], bool]:
    """Return whether this worker should write words instead of vectors; checks at most every `LOOK_SECONDS`."""
    looked_at = time.monotonic()
    reach = r.reach(process.me())

    def look() -> bool:
        nonlocal looked_at
        if time.monotonic() < looked_at + LOOK_SECONDS:
            return False
        looked_at = time.monotonic()
        return turns.words_wait(r.pool, only_small=only_small, reach=reach)

    return look


def elsewhere(r: Resources, queue: str) -> Callable[[], bool]:
    """Return a function that writes words of the task due for them, and returns whether there may be more."""
    looks_at = 0.0

    def write() -> bool:
        nonlocal looks_at
        if time.monotonic() < looks_at:
            return False
        rest = LOOK_SECONDS
        try:
            if (due := _due_for_words(r, only_small=queue == FAST)) is not None:
                rest = 0.0 if _write_words(r, due, queue) else REST_SECONDS
        except Exception as error:  # noqa: BLE001 - no fault of the slice that waits; the task's own slices meet it too
            log.warning("words of another task are not written", error=str(error))
            rest = REST_SECONDS
        looks_at = time.monotonic() + rest
        return not rest

    return write


def _due_for_words(r: Resources, *, only_small: bool) -> UUID | None:
    """Return the task that is due for this worker, of those with files that lack their words."""
    reach = r.reach(process.me())
    if not turns.words_wait(r.pool, only_small=only_small, reach=reach):
        return None
    return turns.fairest(r.pool, only_small=only_small, only_words=True, reach=reach)


def _write_words(r: Resources, task_id: UUID, queue: str) -> int:
    """Write the words of one claim of a task, without requests for vectors. Returns the number of files done."""
    task = tasks.running(r.pool, task_id)
    index = task and tools.index(r.pool, task.index_id)
    if not task or not index:
        return 0
    turns.take(r.pool, index.project_id, "index")
    # `bind_run` may unbind a name, and the waiting slice has its own
    names = structlog.contextvars.bound_contextvars(task_id="", tool_id="", request_id="")
    with names, open_lease(r.settings.database, task_id) as lease:
        bind_run(task.id, task.tool_id, task.request_id)
        try:
            run = replace(_open_run(r, task, index, lease, queue), asks=False)
            finished, _ = _record(r.pool, task, index_slice(run, task_id, 0))
        finally:
            files.release(r.pool, lease.owner)
    dispatch.close_if_done(r.pool, task_id, task.index_id)
    return finished


def _open_run(r: Resources, task: RunningTask, index: Index, lease: Lease, queue: str) -> IndexRun:
    settings = index.settings
    return IndexRun(
        index=index,
        epoch=task.epoch,
        source=r.source_of(index),
        pace=r.pace(settings.embedder),
        words_in_store=r.words_in_store(index),
        left_bytes=math.inf if task.left_bytes is None else task.left_bytes,
        gives_way=_words_wait(r, only_small=queue == FAST),
        write_elsewhere=elsewhere(r, queue),
        tokenizer=r.tokenizer(settings.embedder),
        embedder=r.embedder(settings.embedder, explicit_dimensions=settings.explicit_dimensions),
        store=r.store_of(index),
        pool=r.pool,
        lease=lease,
        concurrency=r.settings.embedding_concurrency,
        budget=r.budget(settings.embedder),
        spending=None if task.max_cost_tokens is None else Spending(r.pool, task.id),
        embed_seconds=EMBED_SECONDS[queue],
        space=r.space,
        limits=Limits(
            max_pages=settings.max_pages,
            max_characters=settings.max_characters,
            seconds=r.settings.parse_seconds,
            memory_bytes=r.settings.parse_memory_mb << 20,
            ocr_languages=r.settings.ocr_languages,
            ocr_pictures=r.settings.ocr_pictures,
        ),
    )


def _record_fault(pool: Pool, task: RunningTask, lease: Lease, error: Exception) -> None:
    """Release the files after an outage; count any other unexpected exception.

    After too many the task ends, because a bug that hits every file would loop forever. What Postgres always refuses is
    not counted: it hits one file, whose lease expires each time, until it is tried alone and given up.
    """
    if failures.is_outage(error):
        # a server without space may still accept this small write; if not, the outage looks like a process's death
        with suppress(psycopg.OperationalError):
            files.release(pool, lease.owner)
        return
    if isinstance(error, psycopg.OperationalError):
        return
    faults = task_notes.count_fault(pool, task.id, failures.one_line(error))
    if faults >= tasks.MAX_FAULTS:
        reason = f"Indexing failed {faults} times in a row, and no file was finished: {failures.one_line(error)}."
        crashed = SliceCrashed(f"{reason} See the workers' logs, then retry.")
        dispatch.send_next(tasks.fail(pool, task.id, task.index_id, crashed))
