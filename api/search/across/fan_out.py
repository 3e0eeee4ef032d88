"""Runs one query over several tools in parallel. Notes name those that fail or are slow; the others answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from threading import Event

import structlog
from psycopg import DataError

from api.http.disconnect import CallerLeft, Left
from api.search.across.merge import Part, merged
from api.search.across.paths import Place, Route, before_ids, routed
from api.search.across.unindexed import file_id, uncovered_hits
from api.search.query.answer import search
from api.search.query.filters import Within, said_of
from api.search.query.query_vectors import embed_queries
from schemas.across import Across, AcrossAnswer, Searched
from schemas.errors import EmbeddingError, FilterMatchesNothing, FoldexError, NotFound, SearchSlow
from schemas.search import Asked, Coverage, Note, Query
from schemas.source import EmbedderProfile
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.tools import Index

#: Seconds between two checks whether the caller has disconnected.
POLL = 0.1
#: Maximum tools that one request searches in parallel. There may be any number below a path.
MAX_AT_ONCE = 64
#: Share of the time limit after which the search of unindexed files answers with what it has.
READING = 0.8

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one job. `searched` is None for unindexed files."""

    part: Part
    searched: Searched | None
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One search to run. Notes call it by `name`."""

    name: str
    search: Callable[[Left], Found]


#: The outcome of a job; None if it has not ended.
End = Found | Exception | None


def search_across(resources: Resources, asked: Across, *, left: Left) -> AcrossAnswer:
    """Find the best hits of several tools of a project, or below some paths, within SEARCH_SECONDS.

    The time needed to select the tools does not count. Raises `NotFound` for tools that the project does not have,
    `FilterMatchesNothing` if paths are missing or no tool has a file that passes the filters, `CallerLeft`, and the
    errors of `check_answered` if no tool answers.
    """
    started = time.monotonic()
    routes, uncovered = _routes(resources, asked, left)
    begun = time.monotonic()
    jobs = _jobs(resources, asked, routes, uncovered, begun)
    ends = side_by_side(jobs, begun + resources.settings.search_seconds, left)
    check_answered(jobs, ends, asked)
    found = [end for end in ends if isinstance(end, Found)]
    results = merged([each.part for each in found], asked.top_k, by_file=asked.group_by_file)
    return AcrossAnswer(
        query=asked.texts[0],
        mode=asked.mode,
        total_results=len(results),
        took_ms=round((time.monotonic() - started) * 1000, 1),
        coverage=_sum([each.searched.coverage for each in found if each.searched is not None]),
        notes=[note for job, end in zip(jobs, ends, strict=True) for note in _notes(job.name, end)],
        tools=[each.searched for each in found if each.searched is not None],
        results=results,
    )


def _sum(coverages: Sequence[Coverage]) -> Coverage:
    return Coverage(
        indexed_files=sum(each.indexed_files for each in coverages),
        total_files=sum(each.total_files for each in coverages),
    )


def _jobs(
    resources: Resources, asked: Across, routes: Sequence[Route], uncovered: Sequence[Place], begun: float
) -> list[Job]:
    embedded: dict[EmbedderProfile, Event] = {}
    jobs = []
    for route in routes:
        profile = route.tool.index.settings.embedder
        begin = partial(
            _searched, resources, asked, route, embedded.get(profile), embedded.setdefault(profile, Event())
        )
        jobs.append(Job(f"{route.tool.name} ({route.tool.tool_id})", begin))
    if uncovered:
        until = begun + READING * resources.settings.search_seconds
        jobs.append(Job("What no index covers", partial(_read, resources, asked, uncovered, until)))
    return jobs


def _routes(resources: Resources, asked: Across, left: Left) -> tuple[list[Route], list[Place]]:
    if asked.paths is not None:
        found = tools.searchable(resources.pool, asked.project_id)
        return routed(resources, asked.project_id, _while_there(dict.fromkeys(asked.paths), left), found)
    ids = set(asked.tool_ids or ())
    found = tools.searchable(resources.pool, asked.project_id, list(ids))
    missing = ids - {tool.tool_id for tool in found}
    if missing:
        named = ", ".join(sorted(map(str, missing)))
        raise NotFound(f"This project has no search tool {named}; list its tools with GET /api/tools/search.")
    return [Route(tool, None) for tool in found], []


def _while_there(paths: Iterable[str], left: Left) -> Iterator[str]:
    """Yield the paths. Checks for a disconnect before each, because a path in a slow bucket may take long."""
    for path in paths:
        left.check()
        yield path


def side_by_side(jobs: Sequence[Job], until: float, left: Left) -> list[End]:
    """Run jobs in parallel until `until`, a time of `time.monotonic`, and return their outcomes in order.

    Unfinished jobs are told to stop. Raises `CallerLeft`.
    """
    lefts = [Left() for _ in jobs]
    pool = ThreadPoolExecutor(min(len(jobs), MAX_AT_ONCE), thread_name_prefix="across")
    futures = [pool.submit(job.search, own) for job, own in zip(jobs, lefts, strict=True)]
    pending = set(futures)
    try:
        while pending and (rest := until - time.monotonic()) > 0:
            pending = wait(pending, min(POLL, rest)).not_done
            left.check()
        return [
            None if future in pending else _end(job.name, future) for job, future in zip(jobs, futures, strict=True)
        ]
    finally:
        for own in lefts:
            own.event.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _end(name: str, future: Future[Found]) -> End:
    try:
        return future.result()
    except (CallerLeft, DataError):
        # a value that Postgres rejects is the request's fault, not a tool's
        raise
    except FoldexError as error:
        return error
    except Exception as error:  # one failed job must not cost the others' answers
        log.warning("a search among several failed", name=name, exc_info=error)
        return error


def check_answered(jobs: Sequence[Job], ends: Sequence[End], asked: Asked) -> None:
    """Raise an error that names all failed and slow jobs, if none has answered.

    Prefers a retryable error, else takes the first. Raises `FilterMatchesNothing` if the filters matched nothing in
    every job.
    """
    if any(isinstance(end, Found) for end in ends):
        return
    slow = SearchSlow("Nothing answered within SEARCH_SECONDS; try again, or raise it.")
    failed = [end or slow for end in ends if not isinstance(end, Found | FilterMatchesNothing)]
    if not failed:
        said = said_of(asked.filters.model_dump(exclude_none=True))
        hints = "".join(dict.fromkeys(_hint(end) for end in ends))
        raise FilterMatchesNothing(f"No indexed file of any tool matches the filters {said}; widen them.{hints}")
    ours = [error for error in failed if isinstance(error, FoldexError)]
    error = next((error for error in ours if error.retryable), failed[0])
    if len(jobs) == 1 or not isinstance(error, FoldexError):
        raise error
    said = " ".join(note.detail for job, end in zip(jobs, ends, strict=True) for note in _notes(job.name, end))
    raise type(error)(f"No tool answered. {said}", **error.data)


def _notes(name: str, end: End) -> Sequence[Note]:
    if isinstance(end, Found):
        return end.notes
    if end is None:
        return [Note(code="tool_slow", detail=f"{name} did not answer within SEARCH_SECONDS and was left out.")]
    if isinstance(end, FilterMatchesNothing):
        return [Note(code=end.code, detail=f"{name} has no indexed file that matches the filters.{_hint(end)}")]
    # the text of a foreign error may hold details that callers must not see
    said = f"{end.code}: {end.message}" if isinstance(end, FoldexError) else "an error that the server's log tells of."
    return [Note(code="tool_failed", detail=f"{name} failed with {said}")]


def _hint(end: End) -> str:
    """The hint of an error: what the tool has instead of what the filters ask for."""
    return str(end.data.get("hint", "")) if isinstance(end, FoldexError) else ""


def _searched(
    resources: Resources, asked: Across, route: Route, before: Event | None, done: Event, left: Left
) -> Found:
    """Search one tool. `before` is set once another tool's job has embedded the queries by the same model."""
    tool = route.tool
    if asked.mode != "keyword":
        _embed(resources, tool.index, asked, before, done, left)
    answer = search(resources, tool.tool_id, tool.index, _query(asked, route), left=left)
    start = before_ids(tool.index)
    files_of = [file_id(start + hit.file_id_path) for hit in answer.results]
    shown = {name: getattr(answer, name) for name in ("took_ms", "total_results", "coverage", "notes", "trace")}
    searched = Searched(tool_id=tool.tool_id, name=tool.name, **shown)
    return Found(Part(tool.tool_id, answer.results, files_of), searched)


def _embed(resources: Resources, index: Index, asked: Asked, before: Event | None, done: Event, left: Left) -> None:
    """Put the queries' vectors into the cache, with one request per model however many tools use it."""
    if before is not None:
        while not before.wait(POLL):
            left.check()
        return
    try:
        embed_queries(resources, index, asked.texts)
    except EmbeddingError:
        # the search tries again, and can fall back to keywords
        return
    finally:
        done.set()


def _query(asked: Across, route: Route) -> Query:
    """The query for one tool, restricted to the route's files."""
    of_all = {name: getattr(asked, name) for name in Asked.model_fields}
    if route.id_paths is not None:
        of_all["filters"] = Within(**dict(asked.filters), id_paths=sorted(route.id_paths))
    return Query(**of_all)


def _read(resources: Resources, asked: Across, uncovered: Sequence[Place], until: float, left: Left) -> Found:
    hits, notes = uncovered_hits(resources, asked.project_id, uncovered, asked, until=until, left=left)
    return Found(Part(None, hits, [hit.file_id for hit in hits]), None, notes)
