"""Searching a tool's folder."""

from __future__ import annotations

from fastapi import APIRouter

from api.deps import IndexDep, ResourcesDep
from api.problems import RESPONSES
from api.search import search
from schemas.search import Answer, Query

router = APIRouter(prefix="/api/tools/search", tags=["search"], responses=RESPONSES)


@router.post("/{tool_id}/query")
def query(body: Query, index: IndexDep, resources: ResourcesDep) -> Answer:
    """Find chunks by meaning and by words; works from the first indexed file on."""
    return search(resources, index, body)
