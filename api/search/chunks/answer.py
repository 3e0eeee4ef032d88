"""Finds the chunks for a query.

Each function is one step, and takes what the steps before it return: embed, run the legs, fuse, join rows, boost,
rerank, make hits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from api.http.disconnect import Disconnect
from api.search.chunks.candidates import (
    Candidate,
    RankedCandidates,
    fuse,
    rank_candidates,
    scaled,
    wanted_ids,
)
from api.search.chunks.definitions import defining_chunks
from api.search.chunks.file_depth import Files, legs_over_files
from api.search.chunks.legs import LegResults, keyword_rankings, search_store, started_keywords, words_meanwhile
from api.search.chunks.repeated import RankingInputs, Repeated
from api.search.chunks.unembedded import whole_files
from api.search.query.frame import answered, first_hits
from api.search.query.no_hits import stand_in, without_store
from api.search.query.query_vectors import begun_queries
from api.search.query.report import SearchReport, note
from api.search.query.search import Finder, Findings, IndexSearch, unheard
from api.search.rank.boosts import text_of
from api.search.rank.confidence import FITS
from api.search.rank.rerank import RerankOptions, provider_of, reranked
from api.search.rank.weights import WEIGHTS
from schemas.errors import EmbeddingError, RerankUnavailable, StoreUnavailable
from schemas.queries.search import Answer, Hit, Query, SearchRequest, Step
from worker.resources import Resources
from worker.state.index.tools import Index
from worker.state.search.live_rows import FoundRows, live_rows
from worker.vectors import Vector

_repeated = Repeated()

#: Share of a rerank model's score in the score of a hit. The model reads words, but knows neither files nor names.
MODEL_SHARE = 0.7


def search(
    resources: Resources,
    tool_id: UUID,
    index: Index,
    query: Query,
    *,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = unheard,
) -> Answer:
    """Find the best chunks of an index for one or several queries. See `answered`, and `prepared` for the errors."""
    return answered(resources, tool_id, index, query, prepare=prepared, disconnect=disconnect, on_step=on_step)


def prepared(resources: Resources, _: UUID, query: Query) -> Finder:
    """How chunks are found by meaning and keywords, embedded with the index's own model.

    Raises `RerankNotConfigured`. The finder raises `FilterMatchesNothing`, `EmbeddingError` and `StoreError`.
    """
    if query.ranking in {"model", "llm"}:
        provider_of(resources.settings.values(RerankOptions), query.ranking)
    return Finder(query, _ranked_hits)


def _ranked_hits(search: IndexSearch) -> Findings:
    """The hits, or lines of the folder if the index cannot answer yet or now. Raises `FilterMatchesNothing`."""
    request = search.request
    try:
        legs, files = legs_over_files(search, run_legs) if request.group_by_file else (run_legs(search), {})
    except StoreUnavailable as error:
        return without_store(search, error)
    search.disconnect.check()
    defining = () if request.ranking == "none" else defining_chunks(search)
    ranking, row_report = _ranked(search, RankingInputs(legs.rankings, defining), files)
    search.disconnect.check()
    ranked, rerank_report = _rerank(search, ranking.candidates)
    whole = whole_files(search, legs.rankings) if search.whole_files else []
    hits = [*_chunk_hits(search, ranked, {hit.file_id for hit in whole}), *whole]
    report = legs.report + row_report + rerank_report + _fit(ranking.confidence)
    findings = Findings(hits, report, legs.vectors_missing)
    return findings if hits else stand_in(search, findings)


def _ranked(search: IndexSearch, made: RankingInputs, files: Files) -> tuple[RankedCandidates, SearchReport]:
    """The candidates, best first. If the same query was ranked by the same before, they are those of then."""
    request, index_id = search.request, search.index.id
    kept = _repeated.get(index_id, request, made)
    if kept is not None:
        found, report = _rows(search, kept.wanted)
        if kept.versions == found.versions:
            return kept.ranked(request, found.rows), report
    fusion = fuse(request, WEIGHTS, made.rankings, made.defining)
    wanted = wanted_ids(request, fusion, files)
    if kept is None:
        found, report = _rows(search, wanted)
    ranking = rank_candidates(request, WEIGHTS, fusion, found.rows)
    _repeated.put(index_id, request, made, wanted, found.versions, ranking)
    return ranking, report


def _rows(search: IndexSearch, ids: Sequence[str]) -> tuple[FoundRows, SearchReport]:
    started = time.perf_counter()
    found = live_rows(search.resources.pool, search.index.id, ids)
    return found, search.step("rows", started, len(found.rows))


def _fit(sure: float | None) -> SearchReport:
    """A note if the search probably has no answer."""
    if sure is None or sure >= FITS:
        return SearchReport()
    detail = "Probably no hit answers this query: the best ones share few of its words and little of its meaning."
    return note("nothing_fits_well", detail)


def run_legs(search: IndexSearch) -> LegResults:
    """Embed the queries, and run the legs that the mode needs. Keywords run during the embedding where they can.

    If one kind of leg fails and another answers, a note says so. Raises `EmbeddingError`, `StoreError`,
    `OperationalError` and `CallerLeft`.
    """
    with started_keywords(search) as keywords, _begun_vectors(search) as wait_for_vectors:
        words = words_meanwhile(search) if search.uses_vectors else None
        vectors, embed_report = wait_for_vectors()
        search.disconnect.check()
        is_alone = not keywords or search.request.mode == "vector"
        in_store = search_store(search, vectors, words, must_answer=is_alone)
        in_postgres = (
            keyword_rankings(search, keywords, must_answer=not in_store.rankings) if keywords else LegResults([])
        )
    return LegResults([], embed_report) + in_store + in_postgres


def embed(search: IndexSearch) -> tuple[list[Vector], SearchReport]:
    """The vectors of the queries; none if the mode is `keyword`, or they cannot be embedded and it also uses keywords.

    Raises `EmbeddingError`.
    """
    with _begun_vectors(search) as wait_for_vectors:
        return wait_for_vectors()


@contextmanager
def _begun_vectors(search: IndexSearch) -> Iterator[Callable[[], tuple[list[Vector], SearchReport]]]:
    """Begin what `embed` does. Yields what waits for its result."""
    if not search.uses_vectors:
        yield lambda: ([], SearchReport())
        return
    started = time.perf_counter()
    with begun_queries(search.resources, search.index, search.request.texts) as result:
        yield lambda: _embedded(search, result, started)


def _embedded(
    search: IndexSearch, result: Callable[[], list[Vector]], started: float
) -> tuple[list[Vector], SearchReport]:
    try:
        vectors = result()
    except EmbeddingError as error:
        if search.request.mode == "vector":
            raise
        detail = f"The query could not be embedded, so only keywords were searched: {error.message}"
        return [], search.step("embed", started) + note("keywords_only", detail)
    return vectors, search.step("embed", started, len(vectors))


def _rerank(search: IndexSearch, candidates: Sequence[Candidate]) -> tuple[Sequence[Candidate], SearchReport]:
    """Rerank by the model or LLM that the request names. If it fails, keeps the order and adds a note."""
    request, query = search.request, "\n".join(search.request.texts)
    if request.ranking not in {"model", "llm"} or not candidates:
        return candidates, SearchReport()
    by_id = {candidate.id: candidate for candidate in candidates}
    texts = [(candidate.id, _with_place(candidate)) for candidate in candidates]
    started = time.perf_counter()
    try:
        scores = reranked(search.resources, request.ranking, query, texts, check=search.disconnect.check)
    except RerankUnavailable as error:
        return candidates, search.step("rerank", started) + note(
            "rerank_failed", f"Ranked without the model: {error.message}"
        )
    # those that the model did not read have 0 from it, so they stay behind
    blended = [_blended(by_id[id_], score) for id_, score in scores]
    return sorted(blended, key=lambda candidate: -candidate.score), search.step("rerank", started)


def _with_place(candidate: Candidate) -> str:
    """A chunk's text below its path, and the headings or definitions around it."""
    row = candidate.row
    return "\n".join(filter(None, (row["file_path"], row["context"], text_of(row))))


def _blended(candidate: Candidate, score: float) -> Candidate:
    """The candidate with its score joined by the model's."""
    return scaled(candidate, 1 - MODEL_SHARE, {"rerank": MODEL_SHARE * score})


def _chunk_hits(search: IndexSearch, ranked: Sequence[Candidate], whole_file_ids: Collection[UUID]) -> list[Hit]:
    """The first `top_k` chunks or files, with their neighbours, without those of files that are shown whole."""
    shown = (candidate for candidate in ranked if candidate.row["file_id"] not in whole_file_ids)
    return first_hits(search, (_hit(candidate, search.request) for candidate in shown))


def _hit(candidate: Candidate, request: SearchRequest) -> Hit:
    row, distance = candidate.row, candidate.distance
    return Hit(
        **row,
        file_name=row["file_path"].rsplit("/", 1)[-1],
        score=round(max(0.0, candidate.score), 6),
        distance=None if distance is None else round(distance, 6),
        matched_queries=candidate.queries,
        explain=_explained(candidate) if request.explain else None,
    )


def _explained(candidate: Candidate) -> dict[str, float]:
    """The parts that add up to the score, and the ranks in the legs."""
    return {**{name: round(value, 6) for name, value in candidate.parts.items()}, **candidate.ranks}
