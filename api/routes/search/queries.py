"""Searches a tool's folder.

The usual query is answered without FastAPI's dependencies, and calls what they call. They take up to a sixth of the
processor time of a search: see `docs/explanation/figures.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.http import bodies, event_stream, large_answers
from api.http.bodies import JsonRoute
from api.http.current_lists import by_current_lists, by_lists
from api.http.dependencies import (
    CachedCallerDep,
    CachedIndexDep,
    Caller,
    ResourcesDep,
    ToolId,
    cached_caller,
    cached_index,
)
from api.http.described_errors import raises
from api.http.disconnect import Disconnect, DisconnectDep, watch_request
from api.http.lookup_cache import LookupCaches
from api.http.responses import answer_json
from api.http.shares import computing
from api.http.sight import ListsVersion, SeenIndex
from api.indexers.registry import answering
from api.search.query.index_search import ignore_step
from schemas.errors import (
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    EmbeddingUnreadable,
    FilterMatchesNothing,
    NoTree,
    RerankNotConfigured,
    SearchBusy,
    StoreRefused,
    StoreUnauthorized,
    StoreUnavailable,
    TextKeyMissing,
    VectorsElsewhere,
)
from schemas.queries.search import Answer, Query, Refresh, Step
from schemas.queries.tree_search import TreeAnswer
from worker.resources import Resources


class _QueryRoute(JsonRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI. Its own handler takes unusual requests, and says what is wrong with them."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            query = _usual_query(request)
            return await handler(request) if query is None else await _answer(request, query)

        return handle


def _usual_query(request: Request) -> Query | None:
    """The query of a request; None if FastAPI must judge it."""
    if request.headers.get("content-type") != "application/json" or event_stream.wants_events(request):
        return None
    try:
        body = bodies.parsed(request.scope)
        return Query.model_validate(body) if isinstance(body, dict) else None
    except ValueError:
        return None


async def _answer(request: Request, query: Query) -> Response:
    resources: Resources = request.app.state.resources
    caches: LookupCaches = request.app.state.lookup_caches
    tool_id = request.path_params["tool_id"]
    caller = await cached_caller(request, resources, caches)
    index = await cached_index(tool_id, caller, caches)
    check_refresh(caller, query.refresh)
    async with watch_request(request.receive) as disconnect:
        answer = await run_in_threadpool(query_answer, resources, UUID(tool_id), index, query, disconnect)
    return Response(answer, media_type="application/json")


router = APIRouter(prefix="/api/tools/search", tags=["search"], route_class=_QueryRoute)


#: What a search of any kind may fail for.
SEARCH_ERRORS = (
    FilterMatchesNothing,
    RerankNotConfigured,
    EmbeddingRefused,
    EmbeddingUnreadable,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    StoreRefused,
    StoreUnauthorized,
    StoreUnavailable,
    TextKeyMissing,
    VectorsElsewhere,
    SearchBusy,
)


@router.post(
    "/{tool_id}/query",
    response_model=TreeAnswer,
    responses=event_stream.RESPONSES,
    openapi_extra=raises(*SEARCH_ERRORS, NoTree),
)
def query_tool(
    request: Request,
    body: Query,
    tool_id: ToolId,
    caller: CachedCallerDep,
    index: CachedIndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
) -> Response:
    """Find chunks by meaning and by keywords. Works as soon as the first file is indexed.

    With `Accept: text/event-stream` the steps are sent as they happen, then the answer. They are sent again if access
    lists change meanwhile. `refresh` needs the scope `write`.
    """
    check_refresh(caller, body.refresh)

    def answer(on_step: Callable[[Step], None]) -> str:
        return query_answer(resources, UUID(tool_id), index, body, disconnect, on_step)

    if event_stream.wants_events(request):
        return event_stream.stream(request, answer, disconnect)
    return Response(answer(ignore_step), media_type="application/json")


def check_refresh(caller: Caller, refresh: Refresh) -> None:
    """Raise `ScopeMissing` for a search that may start a run, unless the caller may start one."""
    if refresh != "none":
        caller.needs("write")


def query_answer(
    resources: Resources,
    tool_id: UUID,
    index: SeenIndex,
    query: Query,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = ignore_step,
) -> str:
    """The answer to a query as JSON. Raises `SEARCH_ERRORS`, `NoTree` and `CallerLeft`."""
    with large_answers.answer(query.top_k, index.project_id), computing(index.project_id, disconnect.check):
        answer = answering(query.tree).answer

        def make(lists: ListsVersion | None) -> Answer:
            seen = by_lists(resources.pool, index, lists)
            return answer(resources, tool_id, seen, query, disconnect=disconnect, on_step=on_step)

        return answer_json(query, by_current_lists(resources.pool, index.project_id, index.sight, make))
