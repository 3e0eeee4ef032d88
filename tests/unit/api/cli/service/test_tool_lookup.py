"""What is known of tools that may change meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from api.cli.service.connection import Connection
from api.cli.service.tool_lookup import states_of


def test_a_tool_that_was_deleted_meanwhile_is_left_out() -> None:
    def statuses(project: str | None, *, page_size: int) -> list[Any]:
        return [SimpleNamespace(tool_id=tool_id) for tool_id in ("first", "last", "created meanwhile")]

    client = SimpleNamespace(tools=SimpleNamespace(statuses=statuses))
    service = cast("Connection", SimpleNamespace(foldex=client, invocation=SimpleNamespace(project=None)))
    tools: list[Any] = [SimpleNamespace(tool_id=tool_id) for tool_id in ("first", "deleted", "last")]
    found = [(tool.tool_id, state.tool_id) for tool, state in states_of(service, tools)]
    assert found == [("first", "first"), ("last", "last")]
