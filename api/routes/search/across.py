"""Searches several tools of a project at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import APIRouter, Request, Response

from api.http import event_stream, large_answers
from api.http.bodies import JsonRoute
from api.http.current_lists import by_current_lists
from api.http.dependencies import CachedCallerDep, ResourcesDep
from api.http.described_errors import raises
from api.http.disconnect import DisconnectDep
from api.http.responses import answer_json
from api.http.sight import ListsVersion
from api.routes.search.queries import SEARCH_ERRORS
from api.routes.search.whole_tools import whole_tool
from api.search.across.answer import search_across
from api.search.query.index_search import ignore_step
from schemas.errors import NotFound, SearchSlow, TooManyTools
from schemas.queries.across import Across, AcrossAnswer
from schemas.queries.search import Step
from schemas.tool import ToolConfig

router = APIRouter(prefix="/api/search", tags=["search"], route_class=JsonRoute)


@router.post(
    "",
    response_model=AcrossAnswer,
    responses=event_stream.RESPONSES,
    openapi_extra=raises(NotFound, SearchSlow, TooManyTools, *SEARCH_ERRORS),
)
def search_project(
    request: Request, body: Across, caller: CachedCallerDep, resources: ResourcesDep, disconnect: DisconnectDep
) -> Response:
    """Search several tools, or some paths, in parallel. The answer names tools that failed or were slow.

    With `Accept: text/event-stream` the steps are sent as they happen, each with its `tool_id`, then the answer. They
    are sent again if access lists change meanwhile. `index_missing` needs the scope `write`.
    """
    caller.check(body.project_id)
    if body.index_missing:
        caller.needs("write")

    index_folder = partial(whole_tool, resources, body.project_id, ToolConfig())

    def answer(on_step: Callable[[Step], None]) -> str:
        def by_lists(lists: ListsVersion | None) -> AcrossAnswer:
            return search_across(
                resources, body, index_folder, caller.sight, lists=lists, disconnect=disconnect, on_step=on_step
            )

        with large_answers.answer(body.top_k, body.project_id):
            found = by_current_lists(resources.pool, body.project_id, caller.sight, by_lists)
            return answer_json(body, found)

    if event_stream.wants_events(request):
        return event_stream.stream(request, answer, disconnect)
    return Response(answer(ignore_step), media_type="application/json")
