"""What every search has in common, however it finds its hits.

Each function is one step, and takes what the steps before it return. They check the query, compare the folder, resolve
the filters, find hits, and count what they cover.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from uuid import UUID

from api.http.disconnect import Disconnect
from api.search.query.coverage import coverage
from api.search.query.filters import resolve_filters
from api.search.query.long_query import split, with_whole_queries
from api.search.query.no_hits import not_indexed_yet
from api.search.query.refresh import refresh
from api.search.query.report import note
from api.search.query.search import MAX_DEPTH, MIN_DEPTH, Finder, Findings, IndexSearch, unheard
from api.search.text.snippets import AnyHit, grouped, with_neighbours, without_bytes
from api.search.text.urls import with_urls
from schemas.errors import FilterMatchesNothing
from schemas.queries.search import Answer, Query, Step
from worker.resources import Resources
from worker.state.index.tools import Index

#: Checks a query of a tool before it costs anything, and returns how its hits are found.
Prepare = Callable[[Resources, UUID, Query], Finder]


def answered(
    resources: Resources,
    tool_id: UUID,
    index: Index,
    query: Query,
    *,
    prepare: Prepare,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = unheard,
) -> Answer:
    """Answer a query in the way that `prepare` returns. Calls `on_step` after each step.

    While files are still being indexed, filters that match nothing yet return no hits and a note. Raises
    `FilterMatchesNothing`, `CallerLeft` between two steps, and what `prepare` and its finder raise.
    """
    started = time.perf_counter()
    finder = prepare(resources, tool_id, query)
    freshness = refresh(resources, tool_id, index, query.refresh, disconnect=disconnect)
    findings = _findings(resources, index, finder, disconnect, on_step)
    covered = coverage(resources, index, finder.query, freshness.stale_files, vectors_missing=findings.vectors_missing)
    return finder.answer(
        query=query.texts[0],
        mode=finder.query.mode,
        total_results=len(findings.hits),
        took_ms=round((time.perf_counter() - started) * 1000, 1),
        coverage=covered.coverage,
        notes=[*freshness.notes, *findings.report.notes, *covered.notes()],
        trace=list(findings.report.steps) if query.trace else None,
        results=with_urls(list(map(without_bytes, findings.hits)), index.url_template),
        **findings.more,
    )


def _findings(
    resources: Resources, index: Index, finder: Finder, disconnect: Disconnect, on_step: Callable[[Step], None]
) -> Findings:
    query = finder.query
    try:
        filters = resolve_filters(resources.pool, index, query.filters)
    except FilterMatchesNothing as error:
        return Findings([], not_indexed_yet(resources, index, error))
    store = resources.store_of(index)
    depth = min(MAX_DEPTH, max(MIN_DEPTH, 2 * query.top_k))
    whole = query.include_unembedded and index.settings.bounded
    parts, report = split(query.texts)
    request = query.model_copy(update={"query": None, "queries": list(parts)}) if report.notes else query
    search = IndexSearch(resources, index, store, request, filters, depth, whole, disconnect, on_step)
    findings = finder.find(search)
    if report.notes:
        hits = [with_whole_queries(hit, parts) for hit in findings.hits]
        findings = replace(findings, hits=hits, report=report + findings.report)
    return _with_min_score(query.min_score, findings)


def _with_min_score(min_score: float | None, findings: Findings) -> Findings:
    """Drop hits with a lower score. If none is left, a note says so."""
    if min_score is None or not findings.hits:
        return findings
    kept = [hit for hit in findings.hits if hit.score >= min_score]
    if kept:
        return replace(findings, hits=kept)
    best = max(hit.score for hit in findings.hits)
    detail = f"All {len(findings.hits)} hits score below min_score; the best has {best:g}."
    return replace(findings, hits=kept, report=findings.report + note("below_min_score", detail))


def first_hits(search: IndexSearch, hits: Iterable[AnyHit]) -> list[AnyHit]:
    """The first `top_k` chunks or files, with their neighbours."""
    request = search.request
    first = grouped(list(hits))[: request.top_k] if request.group_by_file else list(islice(hits, request.top_k))
    if request.before or request.after:
        first = with_neighbours(search.resources.pool, search.index.id, first, request.before, request.after)
    return first
