"""Searches a tool's folder for a pattern."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.bodies import JsonRoute
from api.http.dependencies import IndexDep, ResourcesDep
from api.http.described_errors import raises
from api.http.disconnect import DisconnectDep
from api.search.grep.grep import grep
from schemas.errors import FilterMatchesNothing, SourceBusy
from schemas.queries.grep import Grep, GrepAnswer

router = APIRouter(prefix="/api/tools/search", tags=["search"], route_class=JsonRoute)


@router.post("/{tool_id}/grep", openapi_extra=raises(FilterMatchesNothing, SourceBusy))
def grep_tool(body: Grep, index: IndexDep, resources: ResourcesDep, disconnect: DisconnectDep) -> GrepAnswer:
    """Find the lines that match a pattern. Works before anything is indexed."""
    return grep(resources, index, body, disconnected=disconnect.event)
