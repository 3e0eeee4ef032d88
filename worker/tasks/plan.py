"""The task that lists a folder in slices."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import structlog
from psycopg.errors import LockNotAvailable

from schemas.errors import FoldexError, PlanCrashed
from worker import dispatch
from worker.app import FAST, app, send_plan
from worker.hosts.needs import needs_of
from worker.index.catalog import list_pages, open_listing
from worker.index.lease import Lease, keep_renewed
from worker.machine.logs import bind_run
from worker.resources import Resources
from worker.state.index import messages, task_notes, tasks, tools, turns
from worker.state.index.tasks import ListingLease
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.tasks import failures, leaving, process
from worker.tasks.failures import Result
from worker.tasks.index import index_due
from worker.tasks.limits import SLICE_SECONDS
from worker.upkeep import fsck

#: Milliseconds that a worker waits for the rows of a task while others also wait for a listing.
PATIENCE_MS = 50

log = structlog.get_logger()


@app.task(name="foldex.plan", base=failures.ShownTask, bind=True)
def plan(self: Any, task_id: str) -> Result:
    """List a slice of the folder that is due, then index a slice of the small task that is due."""
    return failures.contain(UUID(task_id), partial(_plan_and_index, node=self.request.hostname))


def _plan_and_index(task_id: UUID, node: str) -> Result:
    result = failures.unless_locked(_plan, task_id)
    # while many folders wait to be listed, messages of slices queue behind all their messages
    return {**index_due(node), **result} if "listed" in result else result


def _plan(task_id: UUID) -> Result:
    r, lease = process.resources(), Lease()
    r.folders.note_host()
    plan = _begin(r, task_id, lease.owner)
    if plan is None and r.leave_if_out_of_reach(task_id):
        return failures.ELSEWHERE
    index = plan and tools.index(r.pool, plan.index_id)
    if not plan or not index:
        return {"nothing": "to list"}
    if leaving.leave_if_lacking(r.pool, plan.id, (FAST,), needs_of(index), task_notes.warn):
        tasks.release_plan(r.pool, plan.id, lease.owner)
        return _leave(r.pool, plan)
    turns.take(r.pool, index.project_id, "listing")
    return failures.unless_locked(lambda _: _list_slice(r, plan, index, lease), plan.id)


def _list_slice(r: Resources, plan: ListingLease, index: Index, lease: Lease) -> Result:
    with keep_renewed(lease, r.settings.database, plan.id):
        bind_run(plan.id, plan.tool_id, plan.request_id)
        log.info("planning", namespace=index.namespace)
        try:
            with process.idle.work():
                is_complete = _list(r, plan, index, lease)
        except FoldexError as error:
            tasks.release_plan(r.pool, plan.id, lease.owner)
            ending = leaving.leave_failed(r, plan.id, index, (FAST,), error)
            if ending is None:
                return _leave(r.pool, plan)
            ended = failures.settle(r.pool, plan, ending)
            if ended.retry_seconds is not None:
                send_plan(plan.id, plan.tool_id, ended.retry_seconds)
            return ended.result
        except Exception as error:  # an outage releases the listing at once, and any other error counts as a death
            _record_fault(r.pool, plan, lease, error)
            raise
        if not is_complete:
            tasks.release_plan(r.pool, plan.id, lease.owner)
            send_plan(plan.id, plan.tool_id)
    closed = is_complete and dispatch.start_indexing(r.pool, plan.id, plan.index_id)
    return {"listed": is_complete, **(failures.outcome(r.pool, plan.id) if closed else {})}


def _leave(pool: Pool, plan: ListingLease) -> Result:
    if messages.note_sent(pool, plan.id):
        send_plan(plan.id, plan.tool_id)
    return leaving.LEFT


def _begin(r: Resources, hinted: UUID, owner: UUID) -> ListingLease | None:
    """Lease the listing that is due. The message only says that some folder waits, and names one."""
    reach = r.reach(process.me())
    for task_id in turns.listings(r.pool, hinted, reach):
        with suppress(LockNotAvailable):
            plan = tasks.begin_plan(r.pool, task_id, owner, patience_ms=PATIENCE_MS)
            if plan is not None:
                return plan
    is_others = leaving.is_left(r.pool, hinted) or not turns.is_in_reach(r.pool, hinted, reach)
    return None if is_others else tasks.begin_plan(r.pool, hinted, owner)


def _list(r: Resources, plan: ListingLease, index: Index, lease: Lease) -> bool:
    """List until the time is up. Returns True once everything is listed."""
    _check_deaths(plan)
    if plan.list_cursor is None:
        fsck.mark_lost_before_listing(r.pool, r.store_of(index), index, plan.id)
        r.folders.begin(index, accept=plan.allow_removals)
    until = time.monotonic() + SLICE_SECONDS[FAST]
    for page in list_pages(open_listing(plan, index, partial(r.source_of, index), r.pool, lease), until):
        if page.last:
            return True
        if page.first:
            # indexing need not wait for the last page
            dispatch.start_indexing(r.pool, plan.id, plan.index_id)
    return False


def _check_deaths(plan: ListingLease) -> None:
    """Raise `PlanCrashed` if too many workers in a row died during this listing."""
    if plan.deaths >= tasks.MAX_PLAN_DEATHS:
        cause = f"the last error was {plan.fault}" if plan.fault else "they were killed, or ran out of memory"
        raise PlanCrashed(
            f"{plan.deaths} workers in a row failed to list this folder: {cause}. See the workers' logs, then reindex."
        )


def _record_fault(pool: Pool, plan: ListingLease, lease: Lease, error: Exception) -> None:
    """Release the listing after an outage.

    After any other error it stays leased until expiry, which counts as a death.
    """
    if failures.is_outage(error):
        with suppress(psycopg.OperationalError):
            tasks.release_plan(pool, plan.id, lease.owner)
    else:
        task_notes.note_fault(pool, plan.id, failures.one_line(error))
