"""Actions on an existing search tool: change, reindex, cancel, retry, and stream its status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from psycopg import OperationalError

from api.http.bodies import JsonRoute
from api.http.dependencies import Caller, CallerDep, LookupCachesDep, ResourcesDep, ToolDep, needs_space
from api.http.described_errors import raises
from api.http.shares import READS, one_call
from api.indexers import chunks, subject_of
from api.indexers.as_seen import as_seen, tool_as_seen
from api.indexers.registry import DERIVED, check_derived, follow_config
from api.routes.tools import CONFIG_ERRORS, check_counted, existing, status_as_seen, wanted_index
from schemas.errors import (
    Conflict,
    EstimateBusy,
    FolderGone,
    ProjectBusy,
    ServerBusy,
    SourceBusy,
    SourceRefused,
    SourceUnavailable,
)
from schemas.estimate import Estimate
from schemas.reindex import Reindex, ToolReindex
from schemas.status import Status
from schemas.tool import Tool, ToolConfig, ToolPatch
from schemas.wording import amount
from worker import app as queue
from worker.resources import Resources
from worker.state.index import statuses, tasks, tool_actions, tools
from worker.state.index.statuses import TaskOfTool
from worker.state.index.tool_actions import ConfigChanged
from worker.state.index.tools import NewIndex
from worker.state.pool import Pool

router = APIRouter(prefix="/api/tools/search", tags=["search tools"], route_class=JsonRoute)

#: Seconds between two polls of the task whose events are streamed.
POLL_SECONDS = 0.5
#: Polls without news after which a comment keeps proxies from closing the connection.
MAX_QUIET_POLLS = 20


#: What the stream of events looks like.
_EVENTS = {
    "schema": {"type": "string", "description": "Server-sent events: each `data` is a Status as JSON."},
    "example": 'event: status\ndata: {"status": "indexing", "progress": 0.68, …}\n\n',
}


@router.patch("/{tool_id}", status_code=202, dependencies=[needs_space], openapi_extra=raises(*CONFIG_ERRORS))
def patch_tool(
    body: ToolPatch, tool: ToolDep, caller: CallerDep, resources: ResourcesDep, caches: LookupCachesDep
) -> Tool:
    """Rename a tool, or change how its folder is indexed.

    If the config needs another index, it is built beside the present one; see `updating`. Until it is ready, the
    present index answers. If the build fails or is cancelled, nothing changes, and `update_error` says why. `metadata`,
    `metadata_from` and `rules` hold at once in any case.
    """
    if body.config is not None:
        while not _change_config(resources, tool, body.config):
            # another request was faster: its change is kept, too
            tool = existing(tools.get(resources.pool, tool.tool_id))
        caches.forget()
    if body.name is not None:
        tool_actions.rename(resources.pool, tool.tool_id, body.name)
    return tool_as_seen(existing(tools.get(resources.pool, tool.tool_id)), caller)


def _change_config(resources: Resources, tool: Tool, changes: ToolConfig) -> bool:
    """Change some fields of a tool's config. Returns False if `tool` is outdated."""
    # omitted fields keep the values of the previous change, even if its index is not ready yet
    present = tool.updating.config if tool.updating else tool.config
    config = changed_config(present, changes)
    new_index: NewIndex | None = None
    if chunks.keeps_index(config, present):
        # a list may be set, too, once the source is gone: what was indexed of it still answers
        chunks.check_kept(tool.source, config, resources)
        check_derived(resources, config, present)
    else:
        new_index, _ = wanted_index(tool.project_id, tool.source, config, resources, tool=tool)
    try:
        task_id = tool_actions.change_config(resources.pool, tool.tool_id, config, new_index, base=present)
    except ConfigChanged:
        return False
    follow_config(resources, subject_of(tool, config), tool.config)
    if task_id is not None:
        queue.post_plan(task_id, tool.tool_id)
    return True


def changed_config(present: ToolConfig, changes: ToolConfig) -> ToolConfig:
    """A config with the fields that a request sends.

    The fields of a derived index are merged in the same way, unless the request sends null for the index.
    """
    before, sent = present.model_dump(exclude_unset=True), changes.model_dump(exclude_unset=True)
    for row in DERIVED:
        if sent.get(row.name):
            sent[row.name] = {**before.get(row.name, {}), **sent[row.name]}
    return ToolConfig.model_validate({**before, **sent})


@router.post(
    "/{tool_id}/reindex",
    status_code=202,
    response_model=Status,
    responses={200: {"model": Estimate, "description": "The estimate of a dry run."}},
    dependencies=[needs_space],
    openapi_extra=raises(Conflict, FolderGone, EstimateBusy, SourceBusy, SourceRefused, SourceUnavailable),
)
def reindex_tool(
    tool: ToolDep, caller: CallerDep, resources: ResourcesDep, body: ToolReindex | None = None
) -> Status | Response:
    """Index what changed in the folder.

    If a task is open, that task is returned with `rerun: true`. One more task follows it, however many requests came.
    A full run also gives a store that others operate the form of text that VECTOR_STORE_TEXT names: another index is
    built beside the present one, without a call of the model; see `updating` of the tool.

    With `renew_text`, code gets the form of text that new indexes embed, likewise in another index, whose texts of code
    are paid for; `dry_run` tells how much that is. The present index answers until the other one is ready. An index
    that has the form already is read again, and nothing is paid for twice.
    """
    if body is not None and body.dry_run:
        check_counted(resources, caller, tool.project_id, tool.source)
        return JSONResponse(chunks.estimate_reindex(resources, tool.tool_id, body).model_dump(mode="json"))
    chunks.reindex(resources, tool.tool_id, body or Reindex())
    return _status(tool, caller, resources)


@router.post("/{tool_id}/cancel", status_code=202)
def cancel_tool(
    tool: ToolDep,
    caller: CallerDep,
    resources: ResourcesDep,
    task_id: Annotated[UUID | None, Query(description="Only this task, if it is still open; default: any.")] = None,
) -> Status:
    """Stop indexing. What is already searchable stays searchable.

    What changed in a followed folder waits for its next change, or a reindex. A changed config whose index is not ready
    yet is discarded too. With `task_id`, only what that task works on is.
    """
    tool_actions.cancel(resources.pool, tool.tool_id, task_id)
    return _status(tool, caller, resources)


@router.post("/{tool_id}/retry", status_code=202, dependencies=[needs_space])
def retry_tool(tool: ToolDep, caller: CallerDep, resources: ResourcesDep) -> Status:
    """Retry failed and unfinished files. The folder is listed again only if the last task did not finish listing it.

    If a task is open, that task is returned with `rerun: true`. With nothing to retry, the last task is returned.
    """
    started = tool_actions.retry(resources.pool, tool.tool_id)
    if started is not None:
        queue.post(partial(_send_retry, started, tool.tool_id))
    return _status(tool, caller, resources)


def _status(tool: Tool, caller: Caller, resources: Resources) -> Status:
    return as_seen(chunks.status(resources, subject_of(tool)), caller, may_hide=tool.may_hide)


def _send_retry(started: tasks.RetryTask, tool_id: UUID) -> None:
    if started.listing:
        queue.send_plan(started.id, tool_id)
    else:
        shown = f"{amount(started.files, 'file')} again, tool {tool_id}, task {started.id}"
        small = started.files <= tasks.SMALL_TASK
        queue.send("foldex.index", started.id, queue=queue.FAST if small else queue.BULK, shown=shown)


@router.get(
    "/{tool_id}/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": _EVENTS}}}
)
async def stream_events(tool: ToolDep, caller: CallerDep, resources: ResourcesDep) -> StreamingResponse:
    """Stream the status as server-sent events of type `status`: now, and at each change until the task has ended."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _events(resources, tool.tool_id, tool.project_id, caller), media_type="text/event-stream", headers=headers
    )


async def _events(resources: Resources, tool_id: UUID, project_id: str, caller: Caller) -> AsyncIterator[str]:
    """Yield events. Holds no thread and no connection between polls, and ends when the client disconnects."""
    previous, quiet_polls = "", 0
    while True:
        task = await _newest_in_turn(resources.pool, tool_id, project_id)
        if task is None:
            return
        status = status_as_seen(caller, task)
        current = status.model_dump_json(exclude={"eta_seconds", "words_eta_seconds"})
        if current != previous:
            previous, quiet_polls = current, 0
            yield f"event: status\ndata: {status.model_dump_json()}\n\n"
        if status.finished_at is not None:
            return
        quiet_polls += 1
        if quiet_polls % MAX_QUIET_POLLS == 0:
            yield ": nothing new\n\n"
        await asyncio.sleep(POLL_SECONDS)


async def _newest_in_turn(pool: Pool, tool_id: UUID, project_id: str) -> TaskOfTool | None:
    """Call `_newest_task` as one of the reading calls of a project."""
    try:
        # each poll may wait anew
        with one_call():
            async with READS.hold_by_call(project_id):
                return await run_in_threadpool(_newest_task, pool, tool_id)
    except (ProjectBusy, ServerBusy):
        return None


def _newest_task(pool: Pool, tool_id: UUID) -> TaskOfTool | None:
    """The newest task. None ends the stream, and the client reconnects."""
    try:
        return statuses.newest_of_tool(pool, tool_id)
    except OperationalError:
        return None
