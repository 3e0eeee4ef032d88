"""An agent: a client of the Model Context Protocol by the official SDK, over either transport."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Any, Literal

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.service import TOOLS, Service, eventually

if TYPE_CHECKING:  # every process of a test run collects all modules, and few use these
    from mcp import Client
    from mcp_types import CallToolResult, Tool


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
        assert answer.structured_content is None, "a model would pay for the same twice"
        return text_of(answer)

    def data(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A tool's answer as data."""
        answer = self.call(name, structured=True, **arguments)
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
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

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
    running: Service | None, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Agent]:
    """An agent that starts `foldex mcp`, for a service or for the embedded stack."""
    from mcp import Client, StdioServerParameters

    given = dict(os.environ)
    if running is not None:
        given |= {"FOLDEX_HOME": f"{running.home}/none", "FOLDEX_URL": str(running.client.base_url)}
    command = _command(arguments)
    server = StdioServerParameters(command=command[0], args=command[1:], env={**given, **(env or {})}, cwd=cwd)
    with connected(Client(server)) as agent:
        yield agent


@contextmanager
def frozen(running: Service) -> Iterator[None]:
    """Nothing is indexed meanwhile."""
    workers = [process for name, process in running.processes.items() if name.startswith("worker")]
    for worker in workers:
        worker.signal(SIGSTOP)
    try:
        yield
    finally:
        for worker in workers:
            worker.signal(SIGCONT)


def until_nobody_waits(running: Service) -> None:
    """Wait until no call asks for the status of a folder any more."""
    seen: list[float] = []

    def is_quiet() -> bool:
        seen.append(status_calls(running))
        # a wait looks every three seconds at the latest
        return len(seen) > 16 and len(set(seen[-16:])) == 1

    eventually(is_quiet, 60)


def status_calls(running: Service) -> float:
    """How often the status of a folder was asked for."""
    calls = f'foldex_requests_total{{method="GET",route="{TOOLS}/{{tool_id}}/status"'
    lines = [line for line in running.client.get("/metrics").text.splitlines() if line.startswith(calls)]
    return sum(float(line.split()[-1]) for line in lines)


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "foldex", "mcp", *arguments]
