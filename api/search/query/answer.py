"""From a query to its answer.

Each function is one step, and takes what the steps before it return: compare the folder, resolve the filters, embed,
run the legs, fuse, join rows, boost, rerank, make hits, count what they cover.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from uuid import UUID

from api.http.disconnect import Disconnect
from api.search.query.candidates import Candidate, boost, fuse, join_rows
from api.search.query.coverage import coverage
from api.search.query.file_depth import legs_over_files
from api.search.query.filters import resolve_filters
from api.search.query.legs import LegResults, keyword_rankings, search_store, started_keywords
from api.search.query.no_hits import not_indexed_yet, stand_in
from api.search.query.query_vectors import embed_queries
from api.search.query.refresh import refresh
from api.search.query.report import Report, note
from api.search.query.search import MAX_DEPTH, Findings, Search, unheard
from api.search.query.unembedded import whole_files
from api.search.rank.rerank import RerankOptions, provider_of, reranked
from api.search.text.snippets import grouped, with_neighbours
from api.search.text.urls import with_urls
from schemas.errors import EmbeddingError, FilterMatchesNothing, RerankUnavailable
from schemas.search import Answer, Hit, Query, SearchRequest, Step
from worker.resources import Resources
from worker.state.index.tools import Index
from worker.vectors import Vector

#: Minimum rows of each leg: enough for fusion, even after dropping ids whose chunk is not live.
MIN_DEPTH = 100


def search(
    resources: Resources,
    tool_id: UUID,
    index: Index,
    query: Query,
    *,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = unheard,
) -> Answer:
    """Find the best chunks of an index for one or several queries, embedded with the index's own model.

    Calls `on_step` after each step. While files are still being indexed, filters that match nothing yet return no hits
    and a note. Raises `FilterMatchesNothing`, `EmbeddingError`, `StoreError`, `RerankNotConfigured`, and `CallerLeft`
    between two steps.
    """
    started = time.perf_counter()
    _check_reranker(resources, query)
    freshness = refresh(resources, tool_id, index, query.refresh, disconnect=disconnect)
    findings = _findings(resources, index, query, disconnect, on_step)
    return Answer(
        query=query.texts[0],
        mode=query.mode,
        total_results=len(findings.hits),
        took_ms=round((time.perf_counter() - started) * 1000, 1),
        coverage=coverage(resources, index, query, freshness.stale_files, vectors_missing=findings.vectors_missing),
        notes=[*freshness.notes, *findings.report.notes],
        trace=list(findings.report.steps) if query.trace else None,
        results=with_urls(findings.hits, index.url_template),
    )


def _check_reranker(resources: Resources, query: Query) -> None:
    """Reject a query whose reranker is not configured before it costs anything."""
    if query.ranking in {"model", "llm"}:
        provider_of(resources.settings.values(RerankOptions), query.ranking)


def _findings(
    resources: Resources, index: Index, query: Query, disconnect: Disconnect, on_step: Callable[[Step], None]
) -> Findings:
    try:
        filters = resolve_filters(resources.pool, index, query.filters)
    except FilterMatchesNothing as error:
        return Findings([], not_indexed_yet(resources, index, error))
    store = resources.store(index.vector_store, index.keyword_index)
    depth = min(MAX_DEPTH, max(MIN_DEPTH, 2 * query.top_k))
    whole = query.include_unembedded and index.settings.bounded
    search = Search(resources, index, store, query, filters, depth, whole, disconnect, on_step)
    return _with_min_score(query.min_score, _ranked_hits(search))


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


def _ranked_hits(search: Search) -> Findings:
    """The hits, or lines of the folder if the index cannot answer yet. Raises `FilterMatchesNothing`."""
    legs, files = legs_over_files(search, run_legs) if search.request.group_by_file else (run_legs(search), {})
    search.disconnect.check()
    fusion = fuse(search, legs.rankings)
    candidates, row_report = join_rows(search, fusion, files)
    boosted = boost(search, candidates, fusion.defining)
    search.disconnect.check()
    ranked, rerank_report = _rerank(search, boosted)
    whole = whole_files(search, legs.rankings) if search.whole_files else []
    hits = [*_chunk_hits(search, ranked, {hit.file_id for hit in whole}), *whole]
    findings = Findings(hits, legs.report + row_report + rerank_report, legs.vectors_missing)
    return findings if hits else stand_in(search, findings)


def run_legs(search: Search) -> LegResults:
    """Embed the queries, and run the legs that the mode needs. Keywords in Postgres run beside that.

    If one kind of leg fails and another answers, a note says so. Raises `EmbeddingError`, `StoreError`,
    `OperationalError` and `CallerLeft`.
    """
    with started_keywords(search) as keywords:
        vectors, embed_report = _embed(search) if search.uses_vectors else ([], Report())
        search.disconnect.check()
        is_alone = not keywords or search.request.mode == "vector"
        in_store = search_store(search, vectors, must_answer=is_alone)
        in_postgres = (
            keyword_rankings(search, keywords, must_answer=not in_store.rankings) if keywords else LegResults([])
        )
    return LegResults([], embed_report) + in_store + in_postgres


def _embed(search: Search) -> tuple[list[Vector], Report]:
    """The vectors of the queries. None if they cannot be embedded, but the mode also uses keywords."""
    started, texts = time.perf_counter(), search.request.texts
    try:
        vectors = embed_queries(search.resources, search.index, texts)
    except EmbeddingError as error:
        if search.request.mode == "vector":
            raise
        detail = f"The query could not be embedded, so only keywords were searched: {error.message}"
        return [], search.step("embed", started) + note("keywords_only", detail)
    return vectors, search.step("embed", started, len(vectors))


def _rerank(search: Search, candidates: Sequence[Candidate]) -> tuple[Sequence[Candidate], Report]:
    """Rerank by the model or LLM that the request names. If it fails, keeps the order and adds a note."""
    request, query = search.request, "\n".join(search.request.texts)
    if request.ranking not in {"model", "llm"} or not candidates:
        return candidates, Report()
    by_id = {candidate.id: candidate for candidate in candidates}
    texts = [(candidate.id, candidate.row["chunk_text"]) for candidate in candidates]
    started = time.perf_counter()
    try:
        scores = reranked(search.resources, request.ranking, query, texts, check=search.disconnect.check)
    except RerankUnavailable as error:
        return candidates, search.step("rerank", started) + note(
            "rerank_failed", f"Ranked without the model: {error.message}"
        )
    return [_with_rerank_score(by_id[id_], score) for id_, score in scores], search.step("rerank", started)


def _with_rerank_score(candidate: Candidate, score: float) -> Candidate:
    return replace(candidate, score=score, parts={**candidate.parts, "rerank": round(score, 6)})


def _chunk_hits(search: Search, ranked: Sequence[Candidate], whole_file_ids: Collection[UUID]) -> list[Hit]:
    """The first `top_k` chunks or files, with their neighbours, without those of files that are shown whole."""
    request = search.request
    shown = [candidate for candidate in ranked if candidate.row["file_id"] not in whole_file_ids]
    if request.group_by_file:
        hits = grouped([_hit(candidate, request) for candidate in shown])[: request.top_k]
    else:
        hits = [_hit(candidate, request) for candidate in shown[: request.top_k]]
    if request.before or request.after:
        hits = with_neighbours(search.resources.pool, search.index.id, hits, request.before, request.after)
    return hits


def _hit(candidate: Candidate, request: SearchRequest) -> Hit:
    row, distance = candidate.row, candidate.distance
    return Hit(
        **row,
        file_name=row["file_path"].rsplit("/", 1)[-1],
        score=round(max(0.0, candidate.score), 6),
        distance=None if distance is None else round(distance, 6),
        matched_queries=candidate.queries,
        explain=candidate.parts if request.explain else None,
    )
