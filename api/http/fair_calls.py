"""Lets calls in, as far as the share of their project allows. Further calls wait in a queue of their project.

A call that is in has a thread at once whenever it needs one: there are as many threads as calls that may be in. So no
project's calls wait for a thread that another project's call holds. Plain ASGI, inside the check of keys.
"""

from __future__ import annotations

import re
from contextlib import AsyncExitStack

from anyio import to_thread
from cachetools import LRUCache
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http import problems, request_log, shares
from api.http.middleware import IncomingBody, replayed
from api.http.shares import CALLS, PROBES, UNNAMED, Share
from schemas.errors import FoldexError
from worker.machine.sharing.owner import working_for

#: Tools whose project is remembered.
MAX_TOOLS = 10_000
#: Threads for work that no call waits for, and for calls without a share: the answers to errors.
SPARE_THREADS = 8

#: Its answer needs no thread.
_LIVENESS = "/healthz"
_PROJECT = re.compile(r"/api/projects/([^/]+)")
_TOOL = re.compile(r"/api/tools/search/([0-9a-fA-F-]{36})(?:/|$)")
#: The place of the project's name in bodies that name one. A name with an escape belongs to nobody.
_NAMING = frozenset({"/api/tools/search", "/api/search"})
_NAMED = re.compile(rb'"project_id"\s{0,8}:\s{0,8}"([^"\\]{1,200})"')


def reserve_threads() -> None:
    """Make room for the threads of all calls that may be in at a time. To be called in the event loop."""
    in_threads = (each.total for each in shares.SHARES if each.uses_threads)
    to_thread.current_default_thread_limiter().total_tokens = sum(in_threads) + SPARE_THREADS


class FairCalls:
    """See the module."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        #: Projects by tool, which never change.
        self._projects: LRUCache[str, str] = LRUCache(MAX_TOOLS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["path"] == _LIVENESS:
            await self._app(scope, receive, send)
            return
        share, request = share_of(scope["method"], scope["path"]), Request(scope)
        owner, receive = await self._owner(share, request, receive)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(share.hold_by_call(owner))
            except FoldexError as error:
                await _refuse(request, error, receive, send)
                return
            with working_for(owner):
                await self._app(scope, receive, send)
        tool = _TOOL.match(scope["path"])
        if tool is not None and (project := request_log.noted_project()) is not None:
            self._projects[tool[1]] = project

    async def _owner(self, share: Share, request: Request, receive: Receive) -> tuple[str, Receive]:
        """The owner whose share a call counts for, and its body."""
        if share is PROBES:
            return (request.client.host if request.client else UNNAMED), receive
        by_key = request_log.noted_project()
        if by_key is not None:
            return by_key, receive
        path = request.url.path
        if path not in _NAMING or request.method != "POST":
            tool, project = _TOOL.match(path), _PROJECT.match(path)
            named = self._projects.get(tool[1]) if tool is not None else project and project[1]
            return named or UNNAMED, receive
        message = await receive()
        found = _NAMED.search(message.get("body", b""))
        return found[1].decode(errors="replace") if found else UNNAMED, replayed(message, receive)


def share_of(method: str, path: str) -> Share:
    """The share that a call counts for."""
    return next(
        share for methods, pattern, share in CALLS if (not methods or method in methods) and pattern.match(path)
    )


async def _refuse(request: Request, error: FoldexError, receive: Receive, send: Send) -> None:
    answer = problems.error_response(request, error)
    # an upload is not read, and must not be parsed as the next request
    answer.headers["Connection"] = "close"
    body = IncomingBody(receive)
    await answer(request.scope, body, body.ending(send))
