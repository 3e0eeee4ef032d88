"""The kinds of sources that a tool can have."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.bodies import JsonRoute
from api.http.dependencies import known_caller
from schemas.content.source import SourceInfo, source_kinds

router = APIRouter(route_class=JsonRoute)


@router.get("/api/sources", tags=["search tools"], dependencies=[known_caller])
def list_sources() -> list[SourceInfo]:
    """List the kinds of sources that a tool can have, with the schema of each."""
    return source_kinds()
