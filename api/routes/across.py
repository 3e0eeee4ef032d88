"""Searching several tools of a project at once."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.deps import KnownCallerDep, ResourcesDep
from api.leaving import LeftDep
from api.problems import RESPONSES
from api.search import room
from api.search.across import search_across
from api.written import written
from schemas.across import Across, AcrossAnswer

router = APIRouter(prefix="/api/search", tags=["search"], responses=RESPONSES)


@router.post("", response_model=AcrossAnswer)
def search_project(body: Across, caller: KnownCallerDep, resources: ResourcesDep, left: LeftDep) -> Response:
    """Ask several tools, or whatever covers some paths, side by side; one that fails or is slow is named."""
    caller.check(body.project_id)
    with room.answer(body.top_k):
        return written(search_across(resources, body, left=left))
