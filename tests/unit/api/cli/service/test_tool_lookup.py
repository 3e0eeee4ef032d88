"""What is known of tools that may change meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from api.cli.service.connection import Connection
from api.cli.service.tool_lookup import states_of
from foldex_client import NotFound


def test_a_tool_that_was_deleted_meanwhile_is_left_out() -> None:
    def status(tool_id: str) -> str:
        if tool_id == "deleted":
            raise NotFound("No tool has this id.")
        return f"state of {tool_id}"

    service = cast("Connection", SimpleNamespace(foldex=SimpleNamespace(tools=SimpleNamespace(status=status))))
    tools: list[Any] = [SimpleNamespace(tool_id=tool_id) for tool_id in ("first", "deleted", "last")]
    found = [(tool.tool_id, str(state)) for tool, state in states_of(service, tools)]
    assert found == [("first", "state of first"), ("last", "state of last")]
