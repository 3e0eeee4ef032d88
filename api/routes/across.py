"""Searches several tools of a project at once."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response

from api.http import large_answers
from api.http.dependencies import CachedCallerDep, ResourcesDep
from api.http.described_errors import raises
from api.http.disconnect import DisconnectDep
from api.http.responses import written
from api.routes.queries import SEARCH_ERRORS
from api.routes.whole_tools import whole_tool
from api.search.across.answer import search_across
from schemas.across import Across, AcrossAnswer
from schemas.errors import NotFound, SearchSlow
from schemas.tool import ToolConfig

router = APIRouter(prefix="/api/search", tags=["search"])


@router.post("", response_model=AcrossAnswer, openapi_extra=raises(NotFound, SearchSlow, *SEARCH_ERRORS))
def search_project(
    body: Across, caller: CachedCallerDep, resources: ResourcesDep, disconnect: DisconnectDep
) -> Response:
    """Search several tools, or some paths, in parallel. The answer names tools that failed or were slow."""
    caller.check(body.project_id)
    with large_answers.answer(body.top_k):
        index_folder = partial(whole_tool, resources, body.project_id, ToolConfig())
        return written(body, search_across(resources, body, index_folder, disconnect=disconnect))
