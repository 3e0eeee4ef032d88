"""An agent: a client of the Model Context Protocol by the official SDK, over either transport."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Tool

from tests.service import Service


class Agent:
    """A session with the tools. Threads may share it."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self.portal, self.client = portal, client

    def call(self, name: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool."""
        return self.portal.call(partial(self.client.call_tool, name, arguments))

    def ask(self, name: str, /, **arguments: Any) -> str:
        """The text of a tool's answer, which must be no error."""
        answer = self.call(name, **arguments)
        assert not answer.is_error, text_of(answer)
        assert answer.structured_content is not None
        return text_of(answer)

    def data(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A tool's answer as data. The client has checked it against the schema that the tool names."""
        answer = self.call(name, **arguments)
        assert not answer.is_error, text_of(answer)
        data: dict[str, Any] = answer.structured_content
        return data

    def refused(self, name: str, /, **arguments: Any) -> str:
        """The sentence of a tool's error."""
        answer = self.call(name, **arguments)
        assert answer.is_error, text_of(answer)
        said = text_of(answer)
        assert said.endswith("."), said
        return said

    def tools(self) -> dict[str, Tool]:
        """All tools by their names."""
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}


def text_of(answer: CallToolResult) -> str:
    """The text of an answer."""
    [content] = answer.content
    assert content.type == "text"
    return content.text


@contextmanager
def connected(client: Client) -> Iterator[Agent]:
    """An agent with a client, whose event loop runs in another thread."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as opened:
        yield Agent(portal, opened)


@contextmanager
def over_http(running: Service, key: str | None = None, mode: Literal["auto", "legacy"] = "auto") -> Iterator[Agent]:
    """An agent at `/mcp` of a service. In the `legacy` mode it speaks the protocol as of 2025."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    http = httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60)
    transport = streamable_http_client(str(running.client.base_url.join("/mcp")), http_client=http)
    with connected(Client(transport, mode=mode)) as agent:
        try:
            yield agent
        finally:
            agent.portal.call(http.aclose)


@contextmanager
def over_stdio(
    running: Service, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Agent]:
    """An agent that starts `foldex mcp`."""
    given = {**os.environ, "FOLDEX_HOME": f"{running.home}/none", "FOLDEX_URL": str(running.client.base_url)}
    command = _command(arguments)
    server = StdioServerParameters(command=command[0], args=command[1:], env={**given, **(env or {})}, cwd=cwd)
    with connected(Client(server)) as agent:
        yield agent


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "foldex", "mcp", *arguments]
