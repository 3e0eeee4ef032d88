"""Searches one of several tools. Tools with the same model embed the queries once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from api.http.disconnect import Disconnect
from api.http.shares import computing
from api.http.sight import SeenIndex
from api.search.across.merge import ToolHits
from api.search.across.paths import ToolRoute
from api.search.across.side_by_side import JobResult
from api.search.across.unindexed import file_id
from api.search.pipeline import answer_query
from api.search.query.coverage import counts_for
from api.search.query.filters import PathFilters
from api.search.query.query_vectors import embed_queries
from schemas.errors import EmbeddingError
from schemas.queries.across import Across, Searched, ToolStep
from schemas.queries.search import Query, SearchRequest, Step
from worker.resources import Resources

#: Called with each step of a search as it ends.
OnStep = Callable[[Step], None]
#: Seconds between two checks whether the caller has disconnected.
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class EmbedTurn:
    """A tool's turn to embed the queries. `previous` is set once another tool of the same model has had its turn."""

    previous: Event | None = None
    done: Event = field(default_factory=Event)

    @classmethod
    def after(cls, other: EmbedTurn | None) -> EmbedTurn:
        """The turn of the next tool with the same model, which waits for the first one's."""
        return cls() if other is None else cls(other.previous or other.done)


def search_tool(
    resources: Resources, request: Across, route: ToolRoute, turn: EmbedTurn, on_step: OnStep, disconnect: Disconnect
) -> JobResult:
    """Search one tool, restricted to the route's files. `on_step` is called after each step, with the tool's id."""
    tool, query = route.tool, _query(request, route)
    if counts_for(resources, tool.index, query).vector_share > 0 and query.mode != "keyword":
        embed_in_turn(resources, tool.index, request, turn, disconnect)
    else:
        turn.done.set()

    def told(step: Step) -> None:
        on_step(ToolStep(tool_id=tool.tool_id, **dict(step)))

    with computing(tool.index.project_id, disconnect.check):
        answer = answer_query(resources, tool.tool_id, tool.index, query, disconnect=disconnect, on_step=told)
    files = [file_id(route.prefix + hit.file_id_path) for hit in answer.results]
    names = ("took_ms", "total_results", "coverage", "calibrated", "notes", "trace")
    shown = {name: getattr(answer, name) for name in names}
    searched = Searched(tool_id=tool.tool_id, name=tool.name, **shown)
    part = ToolHits(tool.tool_id, answer.results, files, tool.index.settings.embedder)
    return JobResult(part, searched)


def embed_in_turn(
    resources: Resources, index: SeenIndex, request: SearchRequest, turn: EmbedTurn, disconnect: Disconnect
) -> None:
    """Put the queries' vectors into the cache, with one request per model however many tools use it."""
    if turn.previous is not None:
        while not turn.previous.wait(POLL_SECONDS):
            disconnect.check()
        return
    try:
        with computing(index.project_id, disconnect.check):
            embed_queries(resources, index, request.texts)
    except EmbeddingError:
        # the search tries again, and can fall back to keywords
        return
    finally:
        turn.done.set()


def _query(request: Across, route: ToolRoute) -> Query:
    fields = {name: getattr(request, name) for name in SearchRequest.model_fields}
    if route.id_paths is not None:
        fields["filters"] = PathFilters(**dict(request.filters), id_paths=sorted(route.id_paths))
    return Query(**fields)
