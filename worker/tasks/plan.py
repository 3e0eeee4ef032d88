"""The task that lists a folder in slices."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import structlog

from schemas.errors import FoldexError, PlanCrashed
from worker import dispatch
from worker.app import FAST, app, send_plan
from worker.index.catalog import list_pages, open_listing
from worker.index.lease import Lease, leased
from worker.logs import bind_run
from worker.resources import Resources
from worker.state.index import tasks, tools
from worker.state.index.tasks import ListingLease
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.tasks import failures, process
from worker.tasks.limits import SLICE_SECONDS
from worker.upkeep import fsck

log = structlog.get_logger()


@app.task(name="foldex.plan", base=failures.ShownTask)
def plan(task_id: str) -> dict[str, Any]:
    """List a slice of the task's folder; indexing starts with the first page."""
    return failures.contain(UUID(task_id), _plan)


def _plan(task_id: UUID) -> dict[str, Any]:
    r = process.resources()
    with leased(r.settings.database, task_id) as lease:
        plan = tasks.begin_plan(r.pool, task_id, lease.owner)
        index = plan and tools.index(r.pool, plan.index_id)
        if not plan or not index:
            return {"nothing": "to list"}
        bind_run(task_id, plan.tool_id, plan.request_id)
        log.info("planning", namespace=index.namespace)
        try:
            with process.idle.work():
                is_complete = _list(r, plan, index, lease)
        except FoldexError as error:
            tasks.release_plan(r.pool, task_id, lease.owner)
            ended = failures.settle(r.pool, plan, error)
            if ended.retry_seconds is not None:
                send_plan(task_id, plan.tool_id, ended.retry_seconds)
            return ended.result
        except Exception as error:  # an outage gives the listing back at once, and anything else counts as a death
            _record_fault(r.pool, plan, lease, error)
            raise
        if not is_complete:
            tasks.release_plan(r.pool, task_id, lease.owner)
            send_plan(task_id, plan.tool_id)
    closed = is_complete and dispatch.start_indexing(r.pool, task_id, plan.index_id)
    return {"listed": is_complete, **(failures.outcome(r.pool, task_id) if closed else {})}


def _list(r: Resources, plan: ListingLease, index: Index, lease: Lease) -> bool:
    """List until the time is up. Returns True once everything is listed."""
    _check_deaths(plan)
    if plan.list_cursor is None:
        fsck.before_listing(r.pool, r.store(index.vector_store, index.keyword_index), index, plan.id)
    deadline = time.monotonic() + SLICE_SECONDS[FAST]
    for page in list_pages(open_listing(plan, index, partial(r.source_of, index), r.pool, lease)):
        if page.last:
            return True
        if page.first:
            # indexing need not wait for the last page
            dispatch.start_indexing(r.pool, plan.id, plan.index_id)
        if time.monotonic() > deadline:
            break
    return False


def _check_deaths(plan: ListingLease) -> None:
    """Raise `PlanCrashed` if too many workers in a row died of this listing."""
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
        tasks.note_fault(pool, plan.id, failures.one_line(error))
