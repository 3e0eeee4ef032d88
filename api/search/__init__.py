"""A query becomes an answer: legs, fusion, and the text from Postgres."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import structlog

from api.search.filters import Narrowed, check_some, narrow
from api.search.fusion import reciprocal_ranks
from api.search.whole import by_file, whole_files
from schemas.search import Answer, Coverage, Hit, Query
from worker.resources import Resources
from worker.state import chunks, drift, tasks
from worker.state.tools import Index
from worker.vectors import Found, Leg, Vector

log = structlog.get_logger()

#: Candidates of each leg: enough for fusion, and for ids that search must drop because their chunk is not live.
MIN_DEPTH, MAX_DEPTH = 100, 10_000


def search(resources: Resources, index: Index, query: Query) -> Answer:
    """The best chunks of an index for a query; it is embedded with the index's own model.

    Raises `FilterMatchesNothing`, `EmbeddingError` and `StoreError`.
    """
    started = time.monotonic()
    narrowed = narrow(resources.pool, index, query.filters)
    depth = min(MAX_DEPTH, max(MIN_DEPTH, 2 * query.top_k))
    by_vector, by_keywords = _legs(resources, index, query, narrowed, depth)
    scores = _scores(query, by_vector, by_keywords)
    rows = chunks.hits(resources.pool, index.id, [*{*scores, *(found.id for found in by_keywords)}])
    if not rows:
        check_some(resources.pool, index, narrowed)
    distances = {found.id: found.value for found in by_vector}
    whole = _whole(resources, index, query, narrowed, by_file(rows, by_keywords))
    shown_whole = {hit.file_id for hit in whole}
    best = [id_ for id_ in scores if id_ in rows and rows[id_]["file_id"] not in shown_whole][: query.top_k]
    results = [*(_hit(rows[id_], scores[id_], distances.get(id_)) for id_ in best), *whole]
    return Answer(
        query=query.query,
        mode=query.mode,
        total_results=len(results),
        took_ms=round((time.monotonic() - started) * 1000, 1),
        coverage=_coverage(resources, index),
        results=results,
    )


def _legs(
    resources: Resources, index: Index, query: Query, narrowed: Narrowed, depth: int
) -> tuple[list[Found], list[Found]]:
    """The rankings by vector and by keywords; empty for a leg that nothing asks for."""
    store = resources.store(index.vector_store, index.keyword_index)
    wants_vector, wants_keywords = query.mode != "keyword", query.mode != "vector" or _wants_whole(index, query)
    legs = []
    if wants_vector:
        vector = embed_query(resources, index, query.query)
        legs.append(Leg(depth, vector=vector, conditions=narrowed.conditions))
    if wants_keywords and store.has_keywords:
        legs.append(Leg(depth, keywords=query.query, conditions=narrowed.conditions))
    found = store.search(index.namespace, legs) if legs else []
    if wants_vector and not found[0] and not narrowed.conditions and drift.ask(resources.pool, index.id):
        log.warning("a namespace that should hold vectors shows none; it is compared", namespace=index.namespace)
    if wants_keywords and not store.has_keywords:
        words = query.query.replace("\0", " ")  # Postgres text holds no NUL
        values = {**narrowed.values, "query": words, "index_id": index.id, "limit": depth}
        found.append([Found(id_, value) for id_, value in chunks.keyword_search(resources.pool, values)])
    by_vector = found[0] if wants_vector else []
    return by_vector, found[-1] if wants_keywords else []


def _wants_whole(index: Index, query: Query) -> bool:
    return query.include_unembedded and index.settings.bounded


def _whole(
    resources: Resources, index: Index, query: Query, narrowed: Narrowed, scores: Mapping[UUID, float]
) -> list[Hit]:
    if not _wants_whole(index, query):
        return []
    limit = resources.settings.unembedded_max_chars
    return whole_files(resources.pool, index, narrowed, scores, files=query.top_k, characters=limit)


def embed_query(resources: Resources, index: Index, text: str) -> Vector:
    """The query's vector by the index's model, cut to what that model takes."""
    settings = index.settings
    limit = settings.embedder.max_input_tokens
    if len(text) > limit:
        starts = resources.tokenizer(settings.embedder).starts(text)
        text = text if len(starts) <= limit else text[: starts[limit]]
    embedder = resources.embedder(settings.embedder, explicit_dimensions=settings.explicit_dimensions)
    budget = resources.budget(settings.embedder)
    if budget is None:
        vectors = embedder.embed([text])
    else:
        # no rate holds a user back, though a provider that asked for quiet gets it
        vectors = budget.query(lambda: embedder.embed([text]), tokens=len(text) // 4 + 1)
    vector: Vector = vectors[0]
    return vector


def _scores(query: Query, by_vector: list[Found], by_keywords: list[Found]) -> Mapping[UUID, float]:
    """Ids with scores from 0 to 1, best first."""
    if query.mode == "vector":
        return {found.id: min(1.0, max(0.0, 1 - found.value)) for found in by_vector}
    if query.mode == "keyword":
        top = by_keywords[0].value if by_keywords else 1.0
        return {found.id: found.value / top if top > 0 else 0.0 for found in by_keywords}
    return reciprocal_ranks([[found.id for found in leg] for leg in (by_vector, by_keywords)])


def _hit(row: dict[str, Any], score: float, distance: float | None) -> Hit:
    name = row["file_path"].rsplit("/", 1)[-1]
    return Hit(**row, file_name=name, score=round(score, 6), distance=None if distance is None else round(distance, 6))


def _coverage(resources: Resources, index: Index) -> Coverage:
    task = tasks.newest(resources.pool, index.id) or {"indexed_files": 0, "total_files": 0}
    return Coverage(indexed_files=task["indexed_files"], total_files=task["total_files"])
