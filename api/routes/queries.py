"""Searching a tool's folder."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Response

from api.deps import KnownIndexDep, ResourcesDep
from api.leaving import LeftDep
from api.problems import RESPONSES
from api.search import room, search
from api.written import written
from schemas.search import Answer, Query

router = APIRouter(prefix="/api/tools/search", tags=["search"], responses=RESPONSES)


@router.post("/{tool_id}/query", response_model=Answer)
def query(body: Query, tool_id: str, index: KnownIndexDep, resources: ResourcesDep, left: LeftDep) -> Response:
    """Find chunks by meaning and by words; works from the first indexed file on."""
    with room.answer(body.top_k):
        return written(search(resources, UUID(tool_id), index, body, left=left))
