"""Searches a tool's folder."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Response

from api.http import large_answers
from api.http.dependencies import CachedIndexDep, ResourcesDep, ToolId
from api.http.described_errors import raises
from api.http.disconnect import DisconnectDep
from api.http.responses import written
from api.search.query.answer import search
from schemas.errors import (
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    FilterMatchesNothing,
    RerankNotConfigured,
    SearchBusy,
    StoreRefused,
    StoreUnauthorized,
    StoreUnavailable,
)
from schemas.search import Answer, Query

router = APIRouter(prefix="/api/tools/search", tags=["search"])


#: What a search of any kind may fail for.
SEARCH_ERRORS = (
    FilterMatchesNothing,
    RerankNotConfigured,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    StoreRefused,
    StoreUnauthorized,
    StoreUnavailable,
    SearchBusy,
)


@router.post("/{tool_id}/query", response_model=Answer, openapi_extra=raises(*SEARCH_ERRORS))
def query_tool(
    body: Query, tool_id: ToolId, index: CachedIndexDep, resources: ResourcesDep, disconnect: DisconnectDep
) -> Response:
    """Find chunks by meaning and by keywords. Works as soon as the first file is indexed."""
    with large_answers.answer(body.top_k):
        return written(body, search(resources, UUID(tool_id), index, body, disconnect=disconnect))
