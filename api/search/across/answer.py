"""From a query over several tools or paths to its answer.

Each function is one step: select the targets, search each of them side by side, merge their hits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from api.http.disconnect import Disconnect
from api.http.sight import ListsVersion, SeenIndex, seen
from api.search.across.merge import ToolHits, merged
from api.search.across.one_tool import EmbedTurn, OnStep, search_tool
from api.search.across.paths import RequestedLocation, SearchTargets, route_paths, whole
from api.search.across.readable import ReadableFiles, SeenTool
from api.search.across.side_by_side import Job, JobResult, check_answered, notes_of, run_side_by_side
from api.search.across.unindexed import uncovered_hits
from api.search.query.index_search import ignore_step
from schemas.content.acl import Sight
from schemas.content.source import AnySource, EmbedderProfile
from schemas.errors import FoldexError, NotFound
from schemas.queries.across import Across, AcrossAnswer
from schemas.queries.search import Coverage, Note
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.tools import Index, SearchableTool, ToolOver

#: Share of the time limit after which the search of unindexed files answers with what it has.
READING_SHARE = 0.8
#: Finds or creates the tool over a folder.
IndexFolder = Callable[[AnySource], ToolOver]


def search_across(
    resources: Resources,
    request: Across,
    index_folder: IndexFolder,
    sight: Sight,
    *,
    lists: ListsVersion | None = None,
    disconnect: Disconnect,
    on_step: OnStep = ignore_step,
) -> AcrossAnswer:
    """Find the best hits of several tools of a project, or below some paths, within SEARCH_SECONDS, as a caller sees.

    With `index_missing`, `index_folder` is called for uncovered folders first. The time for this, and for the selection
    of tools, does not count. Threads call `on_step` after each step of each tool.

    Raises `NotFound` for tools that the project does not have, and `CallerLeft`. Raises `FilterMatchesNothing` if paths
    are missing, or if no tool has a file that passes the filters. If no tool answers, raises as `check_answered` does.
    """
    started = time.monotonic()
    if lists is not None:
        # each index notes in its own copy what it reads
        lists.sees_all = not lists.is_selective
    targets = _targets(
        resources,
        request,
        disconnect,
        lambda index: seen(index, sight, None if lists is None else replace(lists)),
        sight,
    )
    wanted = targets.uncovered if request.index_missing else ()
    new_tools = _index_missing(resources, wanted, index_folder, disconnect)
    jobs_started = time.monotonic()
    jobs = _jobs(resources, request, targets, jobs_started, on_step)
    deadline = jobs_started + resources.settings.search_seconds
    outcomes = run_side_by_side(jobs, deadline, disconnect, request.project_id)
    check_answered(outcomes, request)
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    tool_answers = [result.searched for result in results if result.searched is not None]
    hits = merged([result.part for result in results], request.top_k, by_file=request.group_by_file)
    return AcrossAnswer(
        query=request.texts[0],
        mode=request.mode,
        total_results=len(hits),
        took_ms=round((time.monotonic() - started) * 1000, 1),
        coverage=_total([answer.coverage for answer in tool_answers]),
        notes=[*new_tools, *(note for outcome in outcomes for note in notes_of(outcome))],
        tools=tool_answers,
        results=hits,
    )


def _targets(
    resources: Resources,
    request: Across,
    disconnect: Disconnect,
    as_seen: Callable[[Index], SeenIndex],
    sight: Sight,
) -> SearchTargets:
    """The tools to search, and the paths that no tool covers. Raises `NotFound` and `FilterMatchesNothing`."""

    def seen_tools(found: Iterable[SearchableTool]) -> list[SeenTool]:
        return [SeenTool(tool.tool_id, tool.name, as_seen(tool.index)) for tool in found]

    if request.paths is not None:
        searchable = seen_tools(tools.searchable(resources.pool, request.project_id))
        paths = _while_connected(dict.fromkeys(request.paths), disconnect)
        return route_paths(resources, request.project_id, paths, searchable, sight)
    ids = set(request.tool_ids or ())
    searchable = seen_tools(tools.searchable(resources.pool, request.project_id, list(ids)))
    missing = ids - {tool.tool_id for tool in searchable}
    if missing:
        listed = ", ".join(sorted(map(str, missing)))
        raise NotFound(f"This project has no search tool {listed}; list its tools with GET /api/tools/search.")
    readable = ReadableFiles(resources.pool, request.project_id, sight)
    return SearchTargets(whole(resources.access(request.project_id), searchable), readable)


def _while_connected(paths: Iterable[str], disconnect: Disconnect) -> Iterator[str]:
    """Yield the paths. Checks for a disconnect before each, because a path in a slow bucket may take long."""
    for path in paths:
        disconnect.check()
        yield path


def _index_missing(
    resources: Resources, locations: Sequence[RequestedLocation], index_folder: IndexFolder, disconnect: Disconnect
) -> list[Note]:
    """Have the folders among uncovered locations indexed. Returns notes that name new tools, and what failed.

    A folder is left to a tool above it that is still indexing. Raises `CallerLeft`.
    """
    notes = []
    for location in locations:
        disconnect.check()
        if location.key is None and not _is_left(resources, location):
            notes += _index_notes(location, index_folder)
    return notes


def _is_left(resources: Resources, location: RequestedLocation) -> bool:
    """Whether a tool above may still come to it."""
    return bool(location.tools_above) and tools.any_busy(resources.pool, location.tools_above)


def _index_notes(location: RequestedLocation, index_folder: IndexFolder) -> list[Note]:
    try:
        tool = index_folder(location.source)
    except FoldexError as error:
        return [Note(code=error.code, detail=f"{location.path} was not indexed. {error.message}")]
    if not tool.is_new:
        return []
    detail = f"No tool covered {location.path}, so the new tool {tool.name} ({tool.tool_id}) indexes it."
    return [Note(code="tool_created", detail=detail)]


def _jobs(resources: Resources, request: Across, targets: SearchTargets, started: float, on_step: OnStep) -> list[Job]:
    """One job for each tool, and one for all paths that no tool covers."""
    turns: dict[EmbedderProfile, EmbedTurn] = {}
    jobs = []
    for route in targets.routes:
        profile = route.tool.index.settings.embedder
        turn = turns[profile] = EmbedTurn.after(turns.get(profile))
        run = partial(search_tool, resources, request, route, turn, on_step)
        jobs.append(Job(f"{route.tool.name} ({route.tool.tool_id})", run))
    if targets.uncovered:
        deadline = started + READING_SHARE * resources.settings.search_seconds
        jobs.append(Job("Paths without an index", partial(_search_uncovered, resources, request, targets, deadline)))
    return jobs


def _search_uncovered(
    resources: Resources, request: Across, targets: SearchTargets, deadline: float, disconnect: Disconnect
) -> JobResult:
    hits, notes = uncovered_hits(
        resources, targets.readable, targets.uncovered, request, deadline=deadline, disconnect=disconnect
    )
    if request.min_score is not None:
        hits = [hit for hit in hits if hit.score >= request.min_score]
    return JobResult(ToolHits(None, hits, [hit.file_id for hit in hits]), None, notes)


def _total(coverages: Sequence[Coverage]) -> Coverage:
    """The sums of files, and the share of vectors, where each tool counts by its files. Unknown if one is unknown."""
    counted = [
        (each.indexed_files, each.total_files, each.vector_share)
        for each in coverages
        if each.indexed_files is not None and each.total_files is not None
    ]
    if len(counted) < len(coverages):
        return Coverage(indexed_files=None, total_files=None)
    indexed = sum(files for files, _, _ in counted)
    vectors = sum(files * (share or 0.0) for files, _, share in counted)
    return Coverage(
        indexed_files=indexed,
        total_files=sum(total for _, total, _ in counted),
        vector_share=round(vectors / indexed, 4) if indexed else None,
    )
