"""The tools over the Model Context Protocol, by its official SDK. Importing this takes a second of processor time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    ToolAnnotations,
    ToolExecution,
)
from mcp_types import Tool as Described
from pydantic import ValidationError

from api.agents import code, find, manage, prompts, resources, search, tasks
from api.agents.access import CallRefused, ServiceAccess
from api.agents.protocol_errors import refusing
from api.agents.tool import AgentTool, Progress, ToolArguments
from foldex_client import FoldexError, NotFound, Status
from foldex_client.version import __version__
from schemas.wording import noun

INSTRUCTIONS = """Foldex searches indexed folders: documents and code. When to use which tool: search for questions \
and ideas; grep for exact text; find_symbol for where a name is defined, find_references for where it is used, \
callers for who calls it; outline instead of reading a whole file; impact before a change; read_file for the lines \
that a result names. Results name places as path:first-last, relative to the folder, and as [folder] path:first-last \
if search asked several. The last lines of an answer say what was searched, how much of it is indexed, and what was \
cut: the same call with more=N goes on. `folder` is the name, path or id of an indexed folder, or a path below; \
without it, the folder where you work, or the only one. After you edit files, call refresh, or search with \
fresh=true."""

#: Parts of a schema that no agent needs. Bounds are checked all the same, and their error names them.
_UNREAD = ("title", "additionalProperties", "minimum", "maximum", "minLength", "maxLength", "maxItems")
#: Arguments that many tools have, which are described last.
_COMMON = ("metadata", "folder", "max_tokens", "more")

Context = ServerRequestContext[Any, Any]
#: Opens the service for one call.
Open = Callable[[Context], AbstractAsyncContextManager[ServiceAccess]]
#: Why the caller's key does not allow what needs a scope; None if it does, or if the service is to judge it.
Refusal = Callable[[Context, str], str | None]

log = structlog.get_logger()


class _Handlers:
    """Answers calls of the protocol. A caller sees the tools that its key allows."""

    def __init__(self, tools: Mapping[str, AgentTool[Any]], access: Open, refusal: Refusal) -> None:
        self._tools, self._access, self._refusal = tools, access, refusal
        self._listed = [(tool.scope, _described(tool)) for tool in tools.values()]

    async def list_tools(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        """List the tools."""
        # other versions of the protocol have no such field
        hidden = {} if context.protocol_version == tasks.VERSION else {"execution": None}
        allowed = [
            each.model_copy(update=hidden) for scope, each in self._listed if self._refusal(context, scope) is None
        ]
        return ListToolsResult(tools=allowed)

    async def call_tool(self, context: Context, asked: CallToolRequestParams) -> CallToolResult:
        """Run a tool."""
        tool = self._tools.get(asked.name)
        if tool is None:
            return _failed(f"There is no tool {asked.name!r}; the tools are {', '.join(self._tools)}.")
        refused = self._refusal(context, tool.scope)
        return _failed(refused) if refused else await _call(tool, asked.arguments or {}, context, self._access)

    async def list_resources(self, context: Context, _: PaginatedRequestParams | None) -> ListResourcesResult:
        """List the indexed folders."""
        async with refusing(), self._access(context) as opened:
            return await resources.list_resources(opened)

    async def list_templates(self, _: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        """List the templates of addresses."""
        return resources.TEMPLATES

    async def read_resource(self, context: Context, asked: ReadResourceRequestParams) -> ReadResourceResult:
        """Read a file, or lines of it."""
        async with refusing(), self._access(context) as opened:
            return await resources.read_resource(opened, str(asked.uri))

    async def list_prompts(self, _: Context, __: PaginatedRequestParams | None) -> ListPromptsResult:
        """List the prompts."""
        return prompts.LISTED

    async def get_prompt(self, _: Context, asked: GetPromptRequestParams) -> GetPromptResult:
        """Fill in a prompt."""
        async with refusing():
            return prompts.get_prompt(asked.name, asked.arguments or {})


def make(access: Open, *, allow_delete: bool, refusal: Refusal = lambda _, __: None) -> Server[Any]:
    """The server of all tools. A caller sees those that its key allows."""
    # it logs each session
    logging.getLogger("mcp").setLevel(logging.WARNING)
    tools = [search.TOOL, *find.TOOLS, *code.TOOLS, *manage.TOOLS, *([manage.DELETE] if allow_delete else [])]
    handlers = _Handlers({tool.name: tool for tool in tools}, access, refusal)
    server = Server[Any](
        "foldex",
        version=__version__,
        title="Foldex",
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    tasks.offer(server, access, refusal)
    return server


async def _call(tool: AgentTool[Any], given: dict[str, object], context: Context, access: Open) -> CallToolResult:
    try:
        asked = tool.arguments.model_validate(given)
    except ValidationError as error:
        return _failed(_invalid(tool, error))
    try:
        async with access(context) as opened:
            return await _answer(tool, asked, opened, _progress(context))
    except CallRefused as error:
        return _failed(str(error))
    except Exception:  # an agent cannot use the text of a bug, and must not end its connection
        log.exception("a tool of an agent failed", tool=tool.name)
        return _failed("Something failed in Foldex; its log has the details.")


async def _answer(
    tool: AgentTool[Any], asked: ToolArguments, opened: ServiceAccess, progress: Progress
) -> CallToolResult:
    try:
        reply = await tool.run(opened, asked, progress)
    except NotFound as error:
        return _failed(await _missing(opened, asked, error))
    except FoldexError as error:
        return _failed(opened.sentence(error))
    # most agents hand both to their model, which would pay for the same twice
    data = reply.data.model_dump(mode="json", exclude_none=True) if asked.structured else None
    return CallToolResult(content=[TextContent(type="text", text=reply.text)], structured_content=data)


async def _missing(opened: ServiceAccess, asked: ToolArguments, error: NotFound) -> str:
    """The answer about a thing that is not there: the folder itself may have been deleted during the call."""
    word = asked.path if isinstance(asked, manage.IndexFolderArguments) else getattr(asked, "folder", None)
    try:
        await (opened.places(word) if isinstance(word, list) else opened.place(word))
    except (CallRefused, FoldexError):
        return "The folder was deleted meanwhile; list_folders shows those that there are."
    return error.detail


def _progress(context: Context) -> Progress:
    """Tells an agent that asked for it how far a task is. The protocol wants numbers that grow."""
    last = -1.0

    async def tell(now: Status) -> None:
        nonlocal last
        if now.progress is not None and now.progress > last:
            last = now.progress
            total = f"{now.total_files}{'+' if now.listing else ''} {noun(now.total_files, 'file')}"
            message = f"{now.status}: {now.finished_files} of {total}"
            await context.session.report_progress(now.progress, 1.0, message)

    return tell


def _failed(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)


def _invalid(tool: AgentTool[Any], error: ValidationError) -> str:
    wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return f"{wrong}. {tool.name} takes {', '.join(tool.arguments.model_fields) or 'no arguments'}."


def _described(tool: AgentTool[Any]) -> Described:
    takes = _compact(tool.arguments.model_json_schema())
    properties = takes["properties"]
    # programs ask for data, and models would pay for reading that they can
    del properties["structured"]
    takes["properties"] = dict(sorted(properties.items(), key=lambda each: each[0] in _COMMON))
    return Described(
        name=tool.name,
        description=tool.description,
        input_schema=takes,
        annotations=ToolAnnotations(
            read_only_hint=True if tool.scope == "search" else None,
            destructive_hint=None if tool.scope == "search" else tool.deletes,
        ),
        execution=ToolExecution(task_support="optional") if tool.name in tasks.TOOLS else None,
    )


def _compact(schema: Any, *, names_fields: bool = False) -> Any:
    """A schema without what an agent pays tokens for and does not need: titles, docstrings of models, nulls."""
    if isinstance(schema, list):
        return [_compact(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if names_fields:
        return {name: _compact(field) for name, field in schema.items()}
    kept = dict(schema)
    choices = [each for each in kept.pop("anyOf", []) if each.get("type") != "null"]
    if len(choices) == 1:
        kept = {**choices[0], **kept}
    elif choices:
        kept["anyOf"] = choices
    for name in _UNREAD:
        kept.pop(name, None)
    if kept.get("type") == "object":
        kept.pop("description", None)
    # the usual values are what one expects, and the words of a list say their type
    kept.pop("default", None)
    if "enum" in kept:
        kept.pop("type", None)
    return {name: _compact(value, names_fields=name in {"properties", "$defs"}) for name, value in kept.items()}
