"""Searches a tool's folder for a pattern."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.dependencies import IndexDep, ResourcesDep
from api.http.disconnect import DisconnectDep
from api.http.problems import RESPONSES
from api.search.grep.grep import grep
from schemas.grep import Grep, GrepAnswer

router = APIRouter(prefix="/api/tools/search", tags=["search"], responses=RESPONSES)


@router.post("/{tool_id}/grep")
def grep_files(body: Grep, index: IndexDep, resources: ResourcesDep, disconnect: DisconnectDep) -> GrepAnswer:
    """Find the lines that match a pattern. Works before anything is indexed."""
    return grep(resources, index, body, disconnected=disconnect.event)
