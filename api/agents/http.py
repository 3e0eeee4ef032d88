"""`/mcp`: the tools over streamable HTTP, within the process of the API. Nothing is kept between two requests.

A call ends with its connection. In the protocol of 2025 a cancellation is a request of its own. Without a session it
names the call by a number alone, which another agent with the same key may use too. So it is accepted and ends nothing.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.agents import server
from api.agents.access import ServiceAccess, as_it_is, path_for_others
from api.agents.in_process import InProcess
from foldex_client import AsyncFoldex, FoldexError

#: The address under which the application calls itself.
_SELF = "http://127.0.0.1"
#: Where a request carries its `ConnectedCaller`.
_CALLER = "foldex.caller"


@dataclass(frozen=True)
class ConnectedCaller:
    """The application that all calls go to, the project of the caller's key, and headers that go with each call.

    `refusal` says why the key does not allow what needs a scope; None if it does.
    """

    app: ASGIApp
    project: str | None
    refusal: Callable[[str], str | None]
    headers: Mapping[str, str]


async def answer(scope: Scope, receive: Receive, send: Send, *, caller: ConnectedCaller, allow_delete: bool) -> None:
    """Answer one request. The key that it brings is what all its calls use."""
    manager = StreamableHTTPSessionManager(_server(allow_delete), stateless=True)

    async def unmarked() -> Message:
        """The next part of the body, without the byte order mark that some programs put before JSON."""
        part = await receive()
        body = part.get("body", b"")
        return {**part, "body": body.removeprefix(BOM_UTF8)} if body.startswith(BOM_UTF8) else part

    async with manager.run():
        await manager.handle_request({**scope, _CALLER: caller}, unmarked, send)


@cache
def _server(allow_delete: bool) -> Server[Any]:
    return server.make(
        _access, allow_delete=allow_delete, refusal=lambda context, scope: _caller(context).refusal(scope)
    )


def _request(context: server.Context) -> Request:
    return cast("Request", cast("Any", context).request)


def _caller(context: server.Context) -> ConnectedCaller:
    caller: ConnectedCaller = _request(context).scope[_CALLER]
    return caller


@asynccontextmanager
async def _access(context: server.Context) -> AsyncIterator[ServiceAccess]:
    caller = _caller(context)
    key = _request(context).headers.get("authorization", "").partition(" ")[2].strip() or None
    transport = InProcess(caller.app, caller.headers)
    async with AsyncFoldex(_SELF, key, retries=0, trust_env=False, transport=transport) as foldex:
        yield ServiceAccess(
            foldex=foldex,
            project=caller.project,
            path_of=path_for_others,
            resolved=as_it_is,
            here=None,
            sentence=_sentence,
            has_key=key is not None,
        )


def _sentence(error: FoldexError) -> str:
    return error.detail
