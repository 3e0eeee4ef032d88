"""Searches a tool's folder."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from fastapi import APIRouter, Request, Response

from api.http import event_stream, large_answers
from api.http.bodies import JsonRoute
from api.http.dependencies import CachedIndexDep, ResourcesDep, ToolId
from api.http.described_errors import raises
from api.http.disconnect import Disconnect, DisconnectDep
from api.http.responses import answer_json
from api.http.shares import computing
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
from schemas.queries.search import Query, Step
from schemas.queries.tree_search import TreeAnswer
from worker.resources import Resources
from worker.state.index.tools import Index

router = APIRouter(prefix="/api/tools/search", tags=["search"], route_class=JsonRoute)


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
    index: CachedIndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
) -> Response:
    """Find chunks by meaning and by keywords. Works as soon as the first file is indexed.

    With `Accept: text/event-stream` the steps are sent as they happen, then the answer.
    """

    def answer(on_step: Callable[[Step], None]) -> str:
        return query_answer(resources, UUID(tool_id), index, body, disconnect, on_step)

    if event_stream.wants_events(request):
        return event_stream.streamed(request, answer, disconnect)
    return Response(answer(ignore_step), media_type="application/json")


def query_answer(
    resources: Resources,
    tool_id: UUID,
    index: Index,
    query: Query,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = ignore_step,
) -> str:
    """The answer to a query as JSON. Raises `SEARCH_ERRORS`, `NoTree` and `CallerLeft`."""
    with large_answers.answer(query.top_k, index.project_id), computing(index.project_id, disconnect.check):
        answer = answering(query.tree).answer
        return answer_json(query, answer(resources, tool_id, index, query, disconnect=disconnect, on_step=on_step))
