"""The addresses of calls over a tool."""

from __future__ import annotations

from uuid import UUID

from foldex_client.models import Tool
from foldex_client.sending import path_of

Id = UUID | str
#: A tool, or its id.
AnyTool = Tool | UUID | str


def id_of(tool: AnyTool) -> str:
    """The id of a tool."""
    return tool.tool_id if isinstance(tool, Tool) else str(tool)


def tool_path(tool: AnyTool | None = None, *rest: Id) -> str:
    """The path of a tool and what follows it, or that of all tools."""
    return path_of("api", "tools", "search", *([] if tool is None else [id_of(tool)]), *map(str, rest))
