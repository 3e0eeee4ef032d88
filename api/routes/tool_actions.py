"""What can be asked of a search tool that exists: index again, stop, try again, change; and to be told how it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from psycopg import OperationalError
from pydantic import TypeAdapter

from api.http.dependencies import ResourcesDep, ToolDep, needs_space
from api.http.problems import RESPONSES
from api.routes.tools import found, shown_status, shown_tool, wanted_index
from schemas.source import AnySource
from schemas.tool import Reindex, Status, Tool, ToolConfig, ToolPatch
from worker import app as queue
from worker.resources import Resources
from worker.state.index import tasks, tool_actions, tools
from worker.state.postgres import Pool

router = APIRouter(prefix="/api/tools/search", tags=["search tools"], responses=RESPONSES)

#: Seconds between two looks at the row of a task whose events are sent.
POLL = 0.5
#: Looks without news after which a comment keeps proxies from closing the connection.
QUIET_POLLS = 20

_SOURCE: TypeAdapter[AnySource] = TypeAdapter(AnySource)


@router.patch("/{tool_id}", status_code=202, dependencies=[needs_space])
def patch_tool(body: ToolPatch, tool: ToolDep, resources: ResourcesDep) -> Tool:
    """Rename a tool, or change how its folder is indexed.

    A config that needs another index builds that beside the present one, which answers until the new one is ready; see
    `updating`. If the build fails or is cancelled, everything stays as it was, and `update_error` says why.
    """
    tool_id = tool["tool_id"]
    if body.config is not None:
        # left out fields stay what the change before asked for, though its index is not ready yet
        changed = {**(tool["next_config"] or tool["config"]), **body.config.model_dump(exclude_unset=True)}
        config = ToolConfig.model_validate(changed)
        source, in_use = _SOURCE.validate_python(tool["source"]), tool["config"].get("embedding_model")
        wanted, _ = wanted_index(tool["project_id"], source, config, resources, model_in_use=in_use)
        task_id = tool_actions.change_config(resources.pool, tool_id, config, wanted)
        if task_id is not None:
            queue.post(partial(queue.send_plan, task_id, tool_id))
    if body.name is not None:
        tool_actions.rename(resources.pool, tool_id, body.name)
    return shown_tool(found(tools.get(resources.pool, tool_id)))


@router.post("/{tool_id}/reindex", status_code=202, dependencies=[needs_space])
def reindex_tool(tool: ToolDep, resources: ResourcesDep, body: Reindex | None = None) -> Status:
    """Take up what changed in the folder.

    While a task is open it is answered, with `rerun: true`: one further task follows it, for all who asked meanwhile.
    """
    asked = body or Reindex()
    task_id = tool_actions.reindex(
        resources.pool, tool["tool_id"], full=asked.full, allow_removals=asked.allow_removals
    )
    if task_id is not None:
        queue.post(partial(queue.send_plan, task_id, tool["tool_id"]))
    return _status(resources.pool, tool["tool_id"])


@router.post("/{tool_id}/cancel", status_code=202)
def cancel_tool(tool: ToolDep, resources: ResourcesDep) -> Status:
    """Stop indexing; what is searchable stays so. Where nothing runs, nothing changes.

    A changed config whose index is not ready yet is given up as well.
    """
    tool_actions.cancel(resources.pool, tool["tool_id"])
    return _status(resources.pool, tool["tool_id"])


@router.post("/{tool_id}/retry", status_code=202, dependencies=[needs_space])
def retry_tool(tool: ToolDep, resources: ResourcesDep) -> Status:
    """Try failed and unfinished files again, without listing the folder unless the last task did not get to its end.

    While a task is open it is answered, with `rerun: true`. Where there is nothing to try, the last task is answered.
    """
    started = tool_actions.retry(resources.pool, tool["tool_id"])
    if started is not None:
        queue.post(partial(_send_retry, started, tool["tool_id"]))
    return _status(resources.pool, tool["tool_id"])


def _send_retry(started: tasks.Retry, tool_id: UUID) -> None:
    if started.listing:
        queue.send_plan(started.id, tool_id)
    else:
        shown = f"{started.files} files again, tool {tool_id}, task {started.id}"
        small = started.files <= queue.SMALL_TASK
        queue.send("foldex.index", started.id, queue=queue.FAST if small else queue.BULK, shown=shown)


@router.get(
    "/{tool_id}/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def stream_events(tool: ToolDep, resources: ResourcesDep) -> StreamingResponse:
    """The status as server-sent events of the type `status`: now, whenever it changes, and until the task has ended."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(resources, tool["tool_id"]), media_type="text/event-stream", headers=headers)


async def _events(resources: Resources, tool_id: UUID) -> AsyncIterator[str]:
    """Holds neither a thread nor a connection between two looks; ends when the client leaves."""
    last, quiet = "", 0
    while True:
        row = await run_in_threadpool(_look, resources.pool, tool_id)
        if row is None:
            return
        status = shown_status(tool_id, row)
        known = status.model_dump_json(exclude={"eta_seconds"})
        if known != last:
            last, quiet = known, 0
            yield f"event: status\ndata: {status.model_dump_json()}\n\n"
        if row["finished_at"] is not None:
            return
        quiet += 1
        if quiet % QUIET_POLLS == 0:
            yield ": nothing new\n\n"
        await asyncio.sleep(POLL)


def _look(pool: Pool, tool_id: UUID) -> dict[str, Any] | None:
    """The row of the newest task; None ends the events, and the client asks again."""
    try:
        return tasks.newest_of_tool(pool, tool_id)
    except OperationalError:
        return None


def _status(pool: Pool, tool_id: UUID) -> Status:
    return shown_status(tool_id, found(tasks.newest_of_tool(pool, tool_id)))
