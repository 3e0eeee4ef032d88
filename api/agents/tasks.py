"""Tasks of the protocol of 2025-11-25: a call that indexes answers at once, and an agent asks for its outcome later.

A task is a run of an index, so nothing is kept here: every process of the API knows it as long as the tool is there.
The id names the tool and the run, and whoever may not see the tool sees no task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from anyio import move_on_after, sleep
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    CancelTaskRequestParams,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    PaginatedRequestParams,
    TextContent,
)

from api.agents import manage
from api.agents.access import CallRefused, ServiceAccess
from api.agents.protocol_errors import refusing
from foldex_client import NotFound, Status

#: The protocol that has tasks. Its successor has them no more.
VERSION = "2025-11-25"
CAPABILITY: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
#: The tools whose calls may be tasks.
TOOLS = {tool.name: tool for tool in (manage.INDEX_FOLDER, manage.REFRESH)}
#: Milliseconds between two questions.
POLL_INTERVAL = 1000
#: Runs of a tool that are looked through for an id, and tasks of one page of a list.
MAX_RUNS, PAGE = 1000, 50
#: Seconds between two looks at a run whose result is waited for.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 3.0
#: Characters of a cursor.
MAX_CURSOR = 10
_STATES = {"ready": "completed", "error": "failed", "cancelled": "cancelled"}

Context = ServerRequestContext[Any, Any]
Open = Callable[[Context], AbstractAsyncContextManager[ServiceAccess]]
Refusal = Callable[[Context, str], str | None]
Json = dict[str, Any]


def offer(server: Server[Any], access: Open, refusal: Refusal) -> None:
    """Let a server run tasks for clients that speak the protocol that has them."""

    async def announce_and_start(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call" and ctx.protocol_version == VERSION and _is_task(ctx.params):
            return await _start(ctx, access, refusal)
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict) and result.get("protocolVersion") == VERSION:
            return result | {"capabilities": {**result["capabilities"], "tasks": CAPABILITY}}
        return result

    async def get(context: Context, asked: GetTaskRequestParams) -> Json:
        async with _opened(context, access) as opened:
            return _described(await _run(opened, asked.task_id))

    async def result(context: Context, asked: GetTaskPayloadRequestParams) -> Json:
        async with _opened(context, access) as opened:
            return await _result(opened, asked.task_id)

    async def cancel(context: Context, asked: CancelTaskRequestParams) -> Json:
        async with _opened(context, access) as opened:
            return await _cancel(opened, asked.task_id)

    async def listed(context: Context, asked: PaginatedRequestParams) -> Json:
        async with _opened(context, access) as opened:
            return await _list(opened, asked.cursor)

    server.middleware.append(announce_and_start)
    server.add_request_handler("tasks/get", GetTaskRequestParams, get)
    server.add_request_handler("tasks/result", GetTaskPayloadRequestParams, result)
    server.add_request_handler("tasks/cancel", CancelTaskRequestParams, cancel)
    server.add_request_handler("tasks/list", PaginatedRequestParams, listed)


def _is_task(params: Mapping[str, Any] | None) -> bool:
    """Whether a call asks to run as a task. Clients that send all fields send null for what they do not ask."""
    return (params or {}).get("task") is not None


@asynccontextmanager
async def _opened(context: Context, access: Open) -> AsyncIterator[ServiceAccess]:
    if context.protocol_version != VERSION:
        raise MCPError(METHOD_NOT_FOUND, f"Only the protocol of {VERSION} has tasks.")
    async with refusing(), access(context) as opened:
        yield opened


async def _start(context: Context, access: Open, refusal: Refusal) -> Json:
    """Start what a call asks for, and answer with its task."""
    async with refusing():
        asked = CallToolRequestParams.model_validate(context.params, by_name=False)
        tool = TOOLS.get(asked.name)
        if tool is None:
            raise MCPError(METHOD_NOT_FOUND, f"{asked.name} runs as no task; {' and '.join(TOOLS)} do.")
        if refused := refusal(context, tool.scope):
            raise CallRefused(refused)
        given = tool.arguments.model_validate({**(asked.arguments or {}), "wait_seconds": 0})
        async with access(context) as opened:
            reply = await tool.run(opened, given, _silent)
            data = cast("manage.FolderState", reply.data)
            return {"task": _described(await opened.foldex.tools.status(data.id))}


async def _silent(_: Status) -> None:
    """Who asks for a task asks for its progress."""


async def _run(opened: ServiceAccess, task_id: str) -> Status:
    """The run of an index that an id names. Raises `CallRefused` if the caller sees none."""
    tool_id, _, run_id = task_id.partition(".")
    try:
        UUID(tool_id)
        newest = await opened.foldex.tools.status(tool_id)
        if newest.task_id == run_id:
            return newest
        number = 0
        async for run in opened.foldex.tools.tasks(tool_id, page_size=PAGE):
            number += 1
            if run.task_id == run_id:
                return run
            if number == MAX_RUNS:
                break
    except (ValueError, NotFound):
        pass
    raise CallRefused("There is no task with this id; tasks/list shows those that there are.")


async def _result(opened: ServiceAccess, task_id: str) -> Json:
    """The answer of the call once its run has ended, as if it had waited. Raises `CallRefused` if it goes on."""
    run = await _run(opened, task_id)
    pause = _FIRST_PAUSE
    with move_on_after(manage.MAX_WAIT_SECONDS):
        # not until the folder is ready: a newer run may follow this one
        while not run.ended:
            await sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            run = await _run(opened, task_id)
    if not run.ended:
        raise CallRefused(f"The task is still {run.status}{run.done}; ask for its result again.")
    tool = await opened.foldex.tools.get(run.tool_id)
    reply = await manage.state(opened, tool, run)
    content = [TextContent(type="text", text=reply.text)]
    answer = CallToolResult(content=content, is_error=_STATES.get(run.status) != "completed")
    shown = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return shown | {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": task_id}}}


async def _cancel(opened: ServiceAccess, task_id: str) -> Json:
    run = await _run(opened, task_id)
    if not run.ended:
        await opened.foldex.tools.cancel(run.tool_id, task_id=run.task_id)
        run = await _run(opened, task_id)
        if run.status == "cancelled" or not run.ended:
            return _described(run)
    raise CallRefused(f"The task has ended as {_STATES.get(run.status, run.status)}; nothing is left to cancel.")


async def _list(opened: ServiceAccess, cursor: str | None) -> Json:
    """The newest run of each index that the caller may see."""
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < MAX_CURSOR):
        raise CallRefused("The cursor is none that tasks/list gave; ask without one.")
    first = int(cursor or 0)
    tools = await opened.tools()
    listed = []
    for tool in tools[first : first + PAGE]:
        with suppress(NotFound):
            listed.append(_described(await opened.foldex.tools.status(tool.tool_id)))
    return {"tasks": listed} | ({"nextCursor": str(first + PAGE)} if len(tools) > first + PAGE else {})


def _described(run: Status) -> Json:
    said = [run.status if run.ended else f"{run.status}{run.done}", run.error or run.warning]
    return {
        "taskId": f"{run.tool_id}.{run.task_id}",
        "status": _STATES.get(run.status, "working") if run.ended else "working",
        "statusMessage": ": ".join(filter(None, said)),
        "createdAt": run.created_at.isoformat(),
        "lastUpdatedAt": (run.finished_at or datetime.now(UTC)).isoformat(),
        "ttl": None,
        "pollInterval": POLL_INTERVAL,
    }
