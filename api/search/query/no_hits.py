"""Answers a search that found nothing, or could not ask: an error, a note, or lines with words of the query."""

from __future__ import annotations

import time
from dataclasses import replace

from api.search.grep.fallback import fallback
from api.search.query.filters import check_any_passes
from api.search.query.index_search import Findings, IndexSearch, SearchReport, note
from schemas.errors import FilterMatchesNothing, StoreUnavailable
from schemas.queries.search import Filters
from worker.resources import Resources
from worker.state.index import tasks
from worker.state.index.tools import Index
from worker.state.search import found_chunks


def stand_in(search: IndexSearch, findings: Findings) -> Findings:
    """Add lines with words of the queries, if the index cannot answer yet or now, and no filter is set.

    Raises `FilterMatchesNothing` if no chunk passes the filters, unless files are still being indexed.
    """
    resources, index = search.resources, search.index
    if search.request.filters != Filters():
        return _with_report(findings, _no_match_report(search))
    if findings.vectors_missing:
        return _grep(search, findings)
    if not _is_indexing(resources, index) or found_chunks.any_live(resources.pool, index.id):
        return findings
    detail = "No file of this folder is indexed yet; these lines contain words of the query."
    return _with_report(_grep(search, findings), note("not_indexed_yet", detail))


def without_store(search: IndexSearch, error: StoreUnavailable) -> Findings:
    """Lines with words of the queries, as the store does not answer. Raises `error` if such lines cannot answer."""
    request = search.request
    if search.store.is_here or request.mode == "vector" or request.filters != Filters():
        raise error
    detail = "The vector store does not answer; these lines contain words of the query. Try again later for all hits."
    return _with_report(_grep(search, Findings([])), note("keywords_only", detail))


def not_indexed_yet(resources: Resources, index: Index, error: FilterMatchesNothing) -> SearchReport:
    """The note in place of `error` while files are still being indexed. Otherwise raises `error`."""
    if not _is_indexing(resources, index):
        raise error
    indexed, total = tasks.counts(resources.pool, index.id)
    return note(
        "not_indexed_yet",
        f"{indexed} of {total} files are indexed so far, and none of them matches the filters; "
        "try again once more are indexed, or check the tool's status.",
    )


def _no_match_report(search: IndexSearch) -> SearchReport:
    try:
        check_any_passes(search.resources.pool, search.index, search.filters)
    except FilterMatchesNothing as error:
        return not_indexed_yet(search.resources, search.index, error)
    return SearchReport()


def _grep(search: IndexSearch, findings: Findings) -> Findings:
    started, request = time.perf_counter(), search.request
    hits, notes = fallback(
        search.resources, search.index, " ".join(request.texts), request.top_k, disconnected=search.disconnect.event
    )
    report = SearchReport(notes=tuple(notes)) + search.step("grep", started, len(hits))
    return _with_report(replace(findings, hits=hits), report)


def _with_report(findings: Findings, report: SearchReport) -> Findings:
    return replace(findings, report=findings.report + report)


def _is_indexing(resources: Resources, index: Index) -> bool:
    """Whether a task is open, or none exists yet, so that more may be found later."""
    task = tasks.newest(resources.pool, index.id)
    return task is None or task.finished_at is None
