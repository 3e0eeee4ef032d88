"""Answers a search that found nothing, or could not ask: an error, a note, or lines with words of the query."""

from __future__ import annotations

import time
from dataclasses import replace

from api.search.grep.fallback import fallback
from api.search.query.filters import check_any_passes
from api.search.query.index_search import Findings, IndexSearch, SearchReport, note
from api.search.query.waiting_files import search_waiting_files, with_waiting_lines
from schemas.errors import FilterMatchesNothing, StoreUnavailable
from schemas.queries.search import Filters
from worker.state.search import file_texts


def stand_in(search: IndexSearch, findings: Findings) -> Findings:
    """Add lines with words of the queries if the store lost its vectors, and no filter is set.

    Raises `FilterMatchesNothing` if no chunk passes the filters, unless files still wait to be indexed.
    """
    if search.request.filters != Filters():
        try:
            check_any_passes(search.resources.pool, search.index, search.filters)
        except FilterMatchesNothing:
            if not _may_come(search):
                raise
    elif findings.vectors_missing:
        return _grep(search, findings)
    return findings


def without_store(search: IndexSearch, error: StoreUnavailable) -> Findings:
    """Lines with words of the queries, as the store does not answer. Raises `error` if such lines cannot answer."""
    request = search.request
    if search.store.is_here or request.mode == "vector" or request.filters != Filters():
        raise error
    detail = "The vector store does not answer; these lines contain words of the query. Try again later for all hits."
    return _with_report(_grep(search, Findings([])), note("keywords_only", detail))


def without_files(error: FilterMatchesNothing, search: IndexSearch) -> Findings:
    """Lines of files that still wait, as no indexed one passes the filters. Raises `error` if none waits.

    A tree has no lines.
    """
    if not _may_come(search):
        raise error
    waiting = search_waiting_files(search)
    if search.request.tree != "off":
        return Findings([], waiting.report)
    return with_waiting_lines(search, Findings([]), waiting)


def _grep(search: IndexSearch, findings: Findings) -> Findings:
    started, request = time.perf_counter(), search.request
    hits, notes = fallback(
        search.resources, search.index, " ".join(request.texts), request.top_k, disconnected=search.disconnect.event
    )
    report = SearchReport(notes=tuple(notes)) + search.step("grep", started, len(hits))
    return _with_report(replace(findings, hits=hits), report)


def _with_report(findings: Findings, report: SearchReport) -> Findings:
    return replace(findings, report=findings.report + report)


def _may_come(search: IndexSearch) -> bool:
    """Whether files still wait for their words, so that more may pass the filters later."""
    return file_texts.waiting(search.resources.pool, search.index.id, search.only).may_come
