"""Answers the usual query of a tool without FastAPI, whose routing and dependencies take longer than a known search.

It calls what the route calls. Unusual requests go on to the route unchanged, which also says what is wrong with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http import bodies, event_stream, problems
from api.http.dependencies import cached_caller, cached_index
from api.http.disconnect import watched
from api.http.lookup_cache import LookupCaches
from api.http.middleware import replayed
from api.routes.search.queries import query_answer, router
from schemas.queries.search import Query
from worker.resources import Resources

_PATH = re.compile(r"/api/tools/search/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/query")


@dataclass(frozen=True, slots=True)
class _RouteLabel:
    """What metrics and the log read of a route."""

    path: str


_ROUTE = _RouteLabel(f"{router.prefix}/{{tool_id}}/query")


class DirectQueries:
    """See the module. Plain ASGI, inside the check of keys and bodies."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        path = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if path is None:
            await self._app(scope, receive, send)
            return
        request, message = Request(scope), await receive()
        query = None if event_stream.wants_events(request) else _query(request, message)
        if query is None:
            await self._app(scope, replayed(message, receive), send)
            return
        scope["route"] = _ROUTE
        try:
            response = await _answer(request, path[1], query, receive)
        except Exception as error:  # noqa: BLE001 - raised again unless it has an answer
            response = await problems.answer_outside(request, error)
        await response(scope, receive, send)


async def _answer(request: Request, tool_id: str, query: Query, receive: Receive) -> Response:
    resources: Resources = request.app.state.resources
    caches: LookupCaches = request.app.state.lookup_caches
    index = await cached_index(tool_id, await cached_caller(request, resources, caches), caches)
    async with watched(receive) as disconnect:
        answer = await run_in_threadpool(query_answer, resources, UUID(tool_id), index, query, disconnect)
    return Response(answer, media_type="application/json")


def _query(request: Request, message: Message) -> Query | None:
    """The query in a whole body; None if the route must judge it."""
    is_json = request.headers.get("content-type") == "application/json"
    if not is_json or message["type"] != "http.request" or message.get("more_body", False):
        return None
    try:
        body = bodies.parsed(request.scope)
        return Query.model_validate(body) if isinstance(body, dict) else None
    except ValueError:
        return None
