"""Answers a query: runs the legs, fuses and boosts their results, and reads the texts from Postgres."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from api.http.disconnect import Left
from api.search.grep.fallback import fallback
from api.search.query.candidates import Candidate, ranked
from api.search.query.coverage import coverage
from api.search.query.filters import check_some, narrow
from api.search.query.legs import VECTORS_MISSING, Ranking, Search, rankings
from api.search.query.refresh import refresh
from api.search.query.trace import Course
from api.search.query.unembedded import by_file, whole_files
from api.search.rank.rerank import provider_of, reranked
from api.search.text.snippets import grouped, with_neighbours
from schemas.errors import FilterMatchesNothing, RerankUnavailable
from schemas.search import Answer, Asked, Filters, Hit, Query
from worker.resources import Resources
from worker.state.index import chunks, tasks
from worker.state.index.tools import Index

#: Rows of each leg: enough for fusion, even after dropping ids whose chunk is not live.
MIN_DEPTH, MAX_DEPTH = 100, 10_000


def search(resources: Resources, tool_id: UUID, index: Index, query: Query, *, left: Left) -> Answer:
    """Find the best chunks of an index for one or several queries, embedded with the index's own model.

    While files are still being indexed, filters that match nothing yet return no hits and a note. Raises
    `FilterMatchesNothing`, `EmbeddingError`, `StoreError`, `RerankNotConfigured`, and `CallerLeft` between two steps.
    """
    started = time.perf_counter()
    course = Course()
    if query.ranking in {"model", "llm"}:
        provider_of(resources.settings, query.ranking)
    stale, notes = refresh(resources, tool_id, index, query.refresh, left=left)
    course.notes += notes
    try:
        hits = _found(resources, index, query, course, left)
    except FilterMatchesNothing:
        if not _is_open(resources, index):
            raise
        hits = []
        course.note("not_indexed_yet", _so_far(resources, index))
    return Answer(
        query=query.texts[0],
        mode=query.mode,
        total_results=len(hits),
        took_ms=round((time.perf_counter() - started) * 1000, 1),
        coverage=coverage(resources, index, query, course, stale),
        notes=course.notes,
        trace=course.steps if query.trace else None,
        results=hits,
    )


def _found(resources: Resources, index: Index, query: Query, course: Course, left: Left) -> list[Hit]:
    """The hits, or lines of the folder if the index cannot answer yet. Raises `FilterMatchesNothing`."""
    narrowed = narrow(resources.pool, index, query.filters)
    whole_too = query.include_unembedded and index.settings.bounded
    depth = min(MAX_DEPTH, max(MIN_DEPTH, 2 * query.top_k))
    search = Search(resources, index, query, narrowed, depth, whole_too, course, left)
    found = rankings(search)
    left.check()
    best = ranked(search, found)
    left.check()
    best = _reranked(search, best)
    whole = _whole(search, found) if whole_too else []
    if not best and not whole:
        check_some(resources.pool, index, narrowed)
        return _instead(search)
    return [*_hits(search, best, {hit.file_id for hit in whole}), *whole]


def _reranked(search: Search, best: Sequence[Candidate]) -> list[Candidate]:
    """Rerank by the model or LLM that the query asks for. If it fails, keeps the order and adds a note."""
    asked, query = search.asked, "\n".join(search.asked.texts)
    if asked.ranking not in {"model", "llm"} or not best:
        return list(best)
    by_id = {candidate.id: candidate for candidate in best}
    texts = [(candidate.id, candidate.row["chunk_text"]) for candidate in best]
    try:
        with search.course.step("rerank"):
            judged = reranked(search.resources, asked.ranking, query, texts, check=search.left.check)
    except RerankUnavailable as error:
        search.course.note("rerank_failed", f"Ranked without the model: {error.message}")
        return list(best)
    return [_judged(by_id[id_], score) for id_, score in judged]


def _judged(candidate: Candidate, score: float) -> Candidate:
    return replace(candidate, score=score, parts={**candidate.parts, "rerank": round(score, 6)})


def _whole(search: Search, found: Sequence[Ranking]) -> list[Hit]:
    pool, index = search.resources.pool, search.index
    by_keywords = [ranking.found for ranking in found if ranking.kind == "text"]
    rows = chunks.hits(pool, index.id, [each.id for ranking in by_keywords for each in ranking])
    limit = search.resources.settings.unembedded_max_chars
    scores = by_file(rows, by_keywords)
    return whole_files(pool, index, search.narrowed, scores, files=search.asked.top_k, characters=limit)


def _hits(search: Search, best: Sequence[Candidate], without: Collection[UUID]) -> list[Hit]:
    asked = search.asked
    shown = [candidate for candidate in best if candidate.row["file_id"] not in without]
    if asked.group_by_file:
        hits = grouped([_hit(candidate, asked) for candidate in shown])[: asked.top_k]
    else:
        hits = [_hit(candidate, asked) for candidate in shown[: asked.top_k]]
    if asked.before or asked.after:
        hits = with_neighbours(search.resources.pool, search.index.id, hits, asked.before, asked.after)
    return hits


def _hit(candidate: Candidate, asked: Asked) -> Hit:
    row, distance = candidate.row, candidate.distance
    return Hit(
        **row,
        file_name=row["file_path"].rsplit("/", 1)[-1],
        score=round(max(0.0, candidate.score), 6),
        distance=None if distance is None else round(distance, 6),
        matched_queries=candidate.queries,
        explain=candidate.parts if asked.explain else None,
    )


def _instead(search: Search) -> list[Hit]:
    """Lines with words of the queries, if the index cannot answer yet or now, and no filter is set."""
    if search.asked.filters != Filters():
        return []
    if search.course.has_note(VECTORS_MISSING):
        return _grepped(search)
    if not _is_open(search.resources, search.index) or chunks.any_live(search.resources.pool, search.index.id):
        return []
    hits = _grepped(search)
    search.course.note("not_indexed_yet", "Nothing of this folder is indexed yet; these lines hold words of the query.")
    return hits


def _grepped(search: Search) -> list[Hit]:
    asked = search.asked
    with search.course.step("grep") as step:
        left = search.left.event
        hits, notes = fallback(search.resources, search.index, " ".join(asked.texts), asked.top_k, left=left)
        search.course.notes.extend(notes)
        step.found = len(hits)
    return hits


def _is_open(resources: Resources, index: Index) -> bool:
    """Whether a task is open, or none exists yet, so that more may be found later."""
    task = tasks.newest(resources.pool, index.id)
    return task is None or task["finished_at"] is None


def _so_far(resources: Resources, index: Index) -> str:
    indexed, total = tasks.counts(resources.pool, index.id)
    return (
        f"{indexed} of {total} files are indexed so far, and none of them matches the filters; "
        "try again once more are, or see the tool's status."
    )
