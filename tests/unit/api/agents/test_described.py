"""What an agent reads of the tools: their names, arguments, hints and descriptions, and the tokens that these cost."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp_types import Tool
from pydantic import ValidationError

from api.agents import code, find, manage, search, server
from api.agents.fitting import counted
from api.agents.tool import AgentTool
from tests import coroutines

#: Each tool: its arguments, of which those with `!` must be given, and its hints.
TOOLS = {
    "search": ("query! path types top_k mode fresh tree metadata folder max_tokens more", "reads"),
    "grep": (
        "pattern! fixed ignore_case word path types context output limit folder max_tokens more metadata",
        "reads",
    ),
    "read_file": ("file! first_line last_line pointer folder max_tokens", "reads"),
    "list_files": ("text status folder max_tokens more", "reads"),
    "outline": ("path folder max_tokens more metadata", "reads"),
    "find_symbol": ("name prefix kind folder max_tokens more metadata", "reads"),
    "find_references": ("name! kind folder max_tokens more metadata", "reads"),
    "callers": ("name! direction depth folder max_tokens more metadata", "reads"),
    "impact": ("name! folder max_tokens metadata", "reads"),
    "list_folders": ("", "reads"),
    "index_folder": ("path! name wait_seconds", "adds"),
    "index_status": ("folder", "reads"),
    "refresh": ("wait_seconds folder", "adds"),
    "delete_folder": ("folder!", "deletes"),
}
ALL = (search.TOOL, *find.TOOLS, *code.TOOLS, *manage.TOOLS, manage.DELETE)
#: Characters that an agent pays for the tools in each of its sessions.
MAX_CHARACTERS = 6000
#: The same in tokens of cl100k: without `delete_folder` also as some programs write it, with spaces.
MAX_TOKENS = 1500


def described(*, allow_delete: bool) -> list[Tool]:
    @asynccontextmanager
    async def unreachable(_: Any) -> Any:
        yield None

    async def ask() -> list[Tool]:
        async with Client(server.make(unreachable, allow_delete=allow_delete)) as client:
            return (await client.list_tools()).tools

    return coroutines.run(ask())


@pytest.fixture(scope="module")
def tools() -> list[Tool]:
    return described(allow_delete=True)


def test_the_tools_are_these(tools: list[Tool]) -> None:
    found = {}
    for tool in tools:
        needed = set(tool.input_schema.get("required", ()))
        names = " ".join(f"{name}{'!' * (name in needed)}" for name in tool.input_schema["properties"])
        hints = tool.annotations
        assert hints is not None
        effect = "reads" if hints.read_only_hint else "deletes" if hints.destructive_hint else "adds"
        assert hints.read_only_hint or hints.destructive_hint is not None, "without a hint, it may destroy"
        found[tool.name] = (names, effect)
    assert found == TOOLS
    assert [tool.name for tool in described(allow_delete=False)] == list(TOOLS)[:-1]


def test_each_has_a_description_and_a_schema_of_an_object(tools: list[Tool]) -> None:
    for tool in tools:
        assert tool.description
        assert tool.description.endswith(".")
        assert tool.input_schema["type"] == "object"
        text = json.dumps(tool.input_schema)
        for unread in ('"title": "', "null", "Length", "structured"):
            assert unread not in text


def test_the_whole_list_costs_little(tools: list[Tool]) -> None:
    read = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
    assert len(read) <= MAX_CHARACTERS
    assert counted(json.dumps(json.loads(read), separators=(",", ":"))) <= MAX_TOKENS
    usual = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in described(allow_delete=False)]
    assert counted(json.dumps(usual)) <= MAX_TOKENS


#: Values of the arguments that must be given.
GIVEN = {"query": "x", "pattern": "x", "file": "a.md", "name": "x", "path": "/a", "folder": "a"}


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_null_is_an_argument_left_out(tool: AgentTool[Any]) -> None:
    fields = tool.arguments.model_fields
    given = {name: GIVEN[name] for name, field in fields.items() if field.is_required()}
    optional = [name for name in fields if name not in given]
    usual = tool.arguments.model_validate(given)
    for name in optional:
        assert tool.arguments.model_validate({**given, name: None}) == usual
    assert tool.arguments.model_validate({**given, **dict.fromkeys(optional)}) == usual
    for name in given:
        with pytest.raises(ValidationError):
            tool.arguments.model_validate({**given, name: None})
