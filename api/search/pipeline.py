"""A query over one index, from top to bottom: check, compare, filter, legs, fuse, boost, rerank, cut, cover.

Each function is one step, and takes what the steps before it return. A search in a tree of summaries has the same
steps, but finds its hits in another way: see `answer_by`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from uuid import UUID

from api.http.disconnect import Disconnect
from api.http.sight import SeenIndex
from api.search.chunks.candidates import (
    Candidate,
    RankedCandidates,
    fuse,
    rank_candidates,
    rerank_candidates,
    wanted_ids,
)
from api.search.chunks.file_depth import Files, legs_over_files
from api.search.chunks.legs import defining_chunks, run_legs
from api.search.chunks.repeated import RankingInputs, Repeated
from api.search.chunks.unembedded import whole_files
from api.search.query.coverage import counts_for, coverage
from api.search.query.file_filter import FileSelection
from api.search.query.filters import ResolvedFilters, filters_of, state_at_rest
from api.search.query.index_search import (
    MAX_DEPTH,
    MIN_DEPTH,
    Findings,
    IndexSearch,
    SearchReport,
    ignore_step,
    note,
)
from api.search.query.long_query import split, with_whole_queries
from api.search.query.no_hits import stand_in, without_files, without_store
from api.search.query.refresh import refresh
from api.search.query.waiting_files import search_waiting_files, with_waiting_lines
from api.search.rank.confidence import FITS, Confidence
from api.search.rank.rerank import RerankOptions, provider_of
from api.search.rank.weights import WEIGHTS
from api.search.text.metadata_filter import with_metadata
from api.search.text.snippets import AnyHit, grouped, with_neighbours, with_urls, without_bytes
from api.search.text.visibility import visible_files
from schemas.errors import FilterMatchesNothing, StoreUnavailable
from schemas.queries.search import Answer, Hit, Query, Step
from schemas.wording import noun
from worker.resources import Resources
from worker.state.search import found_chunks
from worker.state.search.live_rows import FoundRows, live_rows

_repeated = Repeated()


def answer_query(
    resources: Resources,
    tool_id: UUID,
    index: SeenIndex,
    query: Query,
    *,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = ignore_step,
) -> Answer:
    """Find the best chunks of an index for one or several queries, by meaning and by keywords.

    Raises `RerankNotConfigured`, `EmbeddingError`, `StoreError`, and what `answer_by` raises.
    """
    if query.ranking in {"model", "llm"}:
        provider_of(resources.settings.values(RerankOptions), query.ranking)
    return answer_by(find_chunks, resources, tool_id, index, query, disconnect=disconnect, on_step=on_step)


def answer_by(
    find: Callable[[IndexSearch], Findings],
    resources: Resources,
    tool_id: UUID,
    index: SeenIndex,
    query: Query,
    *,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = ignore_step,
    kind: type[Answer] = Answer,
) -> Answer:
    """Answer a checked query with the hits that `find` returns. Calls `on_step` after each step.

    While files wait to be indexed, filters that match nothing yet find lines of these, with a note. Raises
    `FilterMatchesNothing`, `CallerLeft` between two steps, and what `find` raises.
    """
    started = time.perf_counter()
    freshness = refresh(resources, tool_id, index, query.refresh, disconnect=disconnect)
    try:
        filters = filters_of(resources.pool, index, query, disconnect.check)
    except FilterMatchesNothing as error:
        visible = visible_files(resources.pool, index, disconnect.check)
        filters = ResolvedFilters(query.filters, FileSelection([]), visible=visible)
        find = partial(without_files, error)
    depth = min(MAX_DEPTH, max(MIN_DEPTH, 2 * query.top_k))
    whole = query.include_unembedded and index.settings.bounded
    store = resources.store_of(index)
    search = IndexSearch(resources, index, store, query, filters, depth, whole, disconnect, on_step)
    findings = _with_min_score(query.min_score, _find_in_parts(search, find))
    covered = coverage(resources, search, query, freshness.stale_files, vectors_missing=findings.vectors_missing)
    return kind(
        query=query.texts[0],
        mode=query.mode,
        total_results=len(findings.hits),
        took_ms=round((time.perf_counter() - started) * 1000, 1),
        coverage=covered.coverage,
        notes=[*freshness.notes, *findings.report.notes, *covered.notes()],
        trace=list(findings.report.steps) if query.trace else None,
        results=with_urls(
            with_metadata(resources.pool, list(map(without_bytes, findings.hits)), index.metadata), index.url_template
        ),
        **findings.more,
    )


def _find_in_parts(search: IndexSearch, find: Callable[[IndexSearch], Findings]) -> Findings:
    """Find hits. A query that is too long is searched in parts."""
    parts, report = split(search.request.texts)
    if not report.notes:
        return find(search)
    request = search.request.model_copy(update={"query": None, "queries": list(parts)})
    findings = find(replace(search, request=request))
    hits = [with_whole_queries(hit, parts) for hit in findings.hits]
    return replace(findings, hits=hits, report=report + findings.report)


def find_chunks(search: IndexSearch) -> Findings:
    """Find chunks, and lines of files that the index cannot find yet or now. Raises `FilterMatchesNothing`."""
    search = _by_what_there_is(search)
    waiting = search_waiting_files(search)
    search.disconnect.check()
    by_file = search.request.group_by_file
    try:
        legs, files = legs_over_files(search, run_legs) if by_file else (run_legs(search), {})
    except StoreUnavailable as error:
        return without_store(search, error)
    search.disconnect.check()
    defining = () if search.request.ranking == "none" else defining_chunks(search)
    ranking, row_report = _rank(search, RankingInputs(legs.rankings, defining), files)
    search.disconnect.check()
    ranked, rerank_report = rerank_candidates(search, ranking.candidates)
    whole = whole_files(search, legs.rankings) if search.whole_files else []
    hits = [*_cut_chunks(search, ranked, {hit.file_id for hit in whole}), *whole]
    fit = SearchReport() if waiting.hits else _fit(ranking.confidence)
    report = legs.report + row_report + rerank_report + fit
    # a model that reranks makes scores its own
    calibrated = ranking.confidence is not None and search.request.ranking == "boost"
    findings = Findings(hits, report, legs.vectors_missing, {"calibrated": calibrated})
    if search.index.lists is not None and (waiting.hits or not hits):
        # what else is read has no rows that say
        search.index.lists.is_open = False
    return with_waiting_lines(search, findings if hits else stand_in(search, findings), waiting)


def _by_what_there_is(search: IndexSearch) -> IndexSearch:
    """The search, with what has vectors. While nothing has, words answer what is asked by meaning."""
    counts, store = counts_for(search.resources, search.index, search.request), search.store
    by_words = counts.vector_share == 0 and search.request.mode == "vector"
    request = search.request.model_copy(update={"mode": "keyword"}) if by_words else search.request
    # counts may be behind the rows while a task is open
    words_wait = store.has_keywords and not store.is_here and (counts.vectors_due > 0 or counts.is_open)
    share = counts.vector_share
    return replace(search, request=request, is_changing=counts.is_open, vector_share=share, words_wait=words_wait)


def _rank(search: IndexSearch, made: RankingInputs, files: Files) -> tuple[RankedCandidates, SearchReport]:
    """Fuse the legs, read the rows, and boost. If the same query was ranked by the same before, reuse that ranking."""
    request, index_id = search.request, search.index.id
    kept = _repeated.get(index_id, request, made)
    if kept is not None:
        found, report = _read_rows(search, kept.wanted)
        if kept.versions == found.versions:
            return kept.ranked(request, found.rows), report
    fusion = fuse(request, WEIGHTS, made.rankings, made.defining)
    wanted = wanted_ids(request, fusion, files)
    if kept is None:
        found, report = _read_rows(search, wanted)
    ranking = rank_candidates(request, WEIGHTS, fusion, found.rows)
    _repeated.put(index_id, request, made, wanted, found.versions, ranking)
    return ranking, report


def _read_rows(search: IndexSearch, ids: Sequence[str]) -> tuple[FoundRows, SearchReport]:
    started = time.perf_counter()
    pool, index = search.resources.pool, search.index
    found = live_rows(pool, index.id, ids, state_at_rest(pool, index, search.request))
    lists = index.lists
    if lists is not None and search.only is None and not search.whole_files:
        lists.is_open = all(map(found_chunks.is_without_lists, found.versions.values()))
    return found, search.step("rows", started, len(found.rows))


def _fit(sure: Confidence | None) -> SearchReport:
    """A note if the search probably has no answer."""
    if sure is None or sure.fits >= FITS:
        return SearchReport()
    detail = "Probably no hit answers this query: the best ones share few of its words and little of its meaning."
    return note("nothing_fits_well", detail)


def _cut_chunks(search: IndexSearch, ranked: Sequence[Candidate], whole_file_ids: Collection[UUID]) -> list[Hit]:
    """Cut to the first `top_k` chunks or files, without those of files that are shown whole."""
    shown = (candidate for candidate in ranked if candidate.row.file_id not in whole_file_ids)
    return cut(search, (_hit(candidate, explain=search.request.explain) for candidate in shown))


def cut(search: IndexSearch, hits: Iterable[AnyHit]) -> list[AnyHit]:
    """Cut to the first `top_k` chunks or files, and add their neighbours."""
    request = search.request
    first = grouped(list(hits))[: request.top_k] if request.group_by_file else list(islice(hits, request.top_k))
    if request.before or request.after:
        first = with_neighbours(search.resources.pool, search.index.id, first, request.before, request.after)
    return first


def _hit(candidate: Candidate, *, explain: bool) -> Hit:
    row, distance = candidate.row, candidate.distance
    return Hit(
        **row._asdict(),
        file_name=row.file_path.rsplit("/", 1)[-1],
        score=round(max(0.0, candidate.score), 6),
        distance=None if distance is None else round(distance, 6),
        matched_queries=candidate.queries,
        also_in=candidate.also_in,
        explain=_explanation(candidate) if explain else None,
    )


def _explanation(candidate: Candidate) -> dict[str, float]:
    """The parts that add up to the score, and the ranks in the legs."""
    return {**{name: round(value, 6) for name, value in candidate.parts.items()}, **candidate.ranks}


def _with_min_score(min_score: float | None, findings: Findings) -> Findings:
    """Drop hits with a lower score. If none is left, a note says so."""
    if min_score is None or not findings.hits:
        return findings
    kept = [hit for hit in findings.hits if hit.score >= min_score]
    if kept:
        return replace(findings, hits=kept)
    best = max(hit.score for hit in findings.hits)
    count = len(findings.hits)
    all_hits = noun(count, "The only hit scores", f"All {count} hits score")
    detail = f"{all_hits} below min_score; the best has {best:g}."
    return replace(findings, hits=kept, report=findings.report + note("below_min_score", detail))
