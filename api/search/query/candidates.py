"""Fuses the legs' results into one ranking of candidates, joins their live rows, and boosts them by features."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.search.query.file_depth import Files, best_of_each_file
from api.search.query.legs import Kind, Ranking
from api.search.query.report import Report
from api.search.query.search import Search
from api.search.rank.boosts import (
    QuerySignals,
    boosted_score,
    chunk_features,
    max_score,
    phrases,
    query_signals,
    split_near_duplicates,
)
from api.search.rank.definition_query import names_in_query
from api.search.rank.fusion import by_score, ranks_and_values, reciprocal_ranks
from schemas.search import Filters, SearchRequest
from worker.state.index import chunks
from worker.state.search import symbols

#: Chunks ranked by their features.
BOOSTED_CHUNKS = 64
#: Chunks ranked by the preset `simple`.
SIMPLE_CHUNKS = 50
#: Minimum of chunks checked for near-duplicates.
MIN_DEDUPLICATED = 20
#: A query counts as finding a hit if the hit is among this many first results of that query alone.
FINDER_RANKS = 10


@dataclass(frozen=True, slots=True)
class Fusion:
    """The rankings that count, the scores of their ids, best first, and chunks that define a name of the queries."""

    rankings: Sequence[Ranking]
    scores: Mapping[str, float]
    defining: Collection[str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that may become a hit, with its row. `parts` explains its score."""

    id: str
    row: dict[str, Any]
    score: float
    distance: float | None
    parts: Mapping[str, float]
    queries: Sequence[str]


def fuse(search: Search, rankings: Sequence[Ranking]) -> Fusion:
    """Fuse the rankings, by ranks and values, or by distance alone with the preset `simple`."""
    request, settings = search.request, search.resources.settings
    # in mode `vector`, keyword legs only serve whole files
    counted = [ranking for ranking in rankings if request.mode != "vector" or ranking.kind == "vector"]
    is_boosted = request.ranking != "none"
    if is_boosted and settings.ranking == "simple" and any(ranking.kind == "vector" for ranking in counted):
        return Fusion(counted, _nearest(counted), ())
    defining = _defining_chunks(search) if is_boosted else ()
    return Fusion(counted, _fused(request, counted, settings.leg_weights), defining)


def join_rows(search: Search, fusion: Fusion, files: Files) -> tuple[list[Candidate], Report]:
    """Read the rows of the best ids, and drop ids without a live row. Chunks that no leg found come last.

    `files` adds the best id of each of the best files.
    """
    started = time.perf_counter()
    count = max(BOOSTED_CHUNKS, 2 * search.request.top_k)
    best = [*list(fusion.scores)[:count], *best_of_each_file(fusion.scores, files, count)]
    ids = dict.fromkeys([*best, *sorted(fusion.defining)])
    rows = chunks.hits(search.resources.pool, search.index.id, ids)
    report = search.step("rows", started, len(rows))
    return _joined(search.request, fusion, rows), report


def boost(search: Search, candidates: Sequence[Candidate], defining: Collection[str]) -> Sequence[Candidate]:
    """Rank the first ones by their features, then the others as they were, then near-duplicates of better ones.

    Keeps the order if the request's ranking is "none".
    """
    request, weights = search.request, search.resources.settings.ranking_weights
    if request.ranking == "none":
        return candidates
    signals = query_signals(request.texts, defining, request.context)
    # behind the chunks of one file, those of others may be the best of theirs
    boosted_chunks = len(candidates) if request.group_by_file else BOOSTED_CHUNKS
    first = [each for rank, each in enumerate(candidates) if rank < boosted_chunks or each.id in defining]
    others = [each for each in candidates[boosted_chunks:] if each.id not in defining]
    boosted = _boosted(first, signals, weights)
    kept, duplicates = split_near_duplicates(
        boosted, lambda candidate: candidate.row["chunk_text"], first=max(MIN_DEDUPLICATED, request.top_k)
    )
    behind = _capped(others, min((candidate.score for candidate in kept), default=0.0))
    last = _capped(duplicates, min((candidate.score for candidate in behind or kept), default=0.0))
    return [*kept, *behind, *last]


def _nearest(rankings: Sequence[Ranking]) -> dict[str, float]:
    """Scores of the preset `simple`: cosine similarity of the nearest few chunks."""
    nearest = [result for ranking in rankings if ranking.kind == "vector" for result in ranking.results[:SIMPLE_CHUNKS]]
    return by_score({result.id: 1 - result.value for result in sorted(nearest, key=lambda result: -result.value)})


def _fused(request: SearchRequest, rankings: Sequence[Ranking], weights: Mapping[str, float]) -> dict[str, float]:
    """Ids with scores from 0 to 1, best first. A single vector leg is scored by distance alone."""
    if request.mode == "vector" and len(rankings) == 1:
        return {result.id: min(1.0, max(0.0, 1 - result.value)) for result in rankings[0].results}
    return ranks_and_values(
        [(weights[_weight_name(ranking.query, ranking.kind)], ranking.ids, ranking.values) for ranking in rankings]
    )


def _weight_name(query: str, kind: Kind) -> str:
    """The name of a leg's weight: identifiers and quoted phrases favor keywords, sentences favor vectors."""
    return f"{'name' if names_in_query(query) or phrases(query) else 'language'}_{kind}"


def _defining_chunks(search: Search) -> Collection[str]:
    """Chunks that pass the filters and hold the first line of a definition that a query names."""
    names = list(dict.fromkeys(name for text in search.request.texts for name in names_in_query(text)))
    if not names:
        return ()
    pool = search.resources.pool
    definitions = symbols.named(pool, search.index.id, names)
    defining = chunks.containing_lines(pool, [(file_id, line) for file_id, line, *_ in definitions])
    if search.request.filters != Filters():
        defining = chunks.passing(pool, defining, search.filters.values)
    return set(defining)


def _joined(request: SearchRequest, fusion: Fusion, rows: Mapping[str, dict[str, Any]]) -> list[Candidate]:
    scores, texts = fusion.scores, request.texts
    distances = _distances(fusion.rankings)
    finders = _finders(request, fusion.rankings)
    ranks = _ranks(fusion.rankings) if request.explain else {}
    ids = [*(id_ for id_ in scores if id_ in rows), *(id_ for id_ in rows if id_ not in scores)]
    return [
        Candidate(
            id_,
            rows[id_],
            score := scores.get(id_, 0.0),
            distances.get(id_),
            {"found": round(score, 6), **ranks.get(id_, {})},
            finders.get(id_, texts),
        )
        for id_ in ids
    ]


def _distances(rankings: Sequence[Ranking]) -> dict[str, float]:
    distances: dict[str, float] = {}
    for ranking in rankings:
        for result in ranking.results if ranking.kind == "vector" else ():
            distances[result.id] = min(result.value, distances.get(result.id, result.value))
    return distances


def _ranks(rankings: Sequence[Ranking]) -> dict[str, dict[str, float]]:
    """The best rank of each kind of leg by id, counted from 1."""
    ranks: dict[str, dict[str, float]] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking.ids, start=1):
            of_id, name = ranks.setdefault(id_, {}), f"{ranking.kind}_rank"
            of_id[name] = min(rank, of_id.get(name, rank))
    return ranks


def _finders(request: SearchRequest, rankings: Sequence[Ranking]) -> dict[str, list[str]]:
    """For each id, the queries that alone would rank it near the top; if none would, those that find it at all."""
    texts = request.texts
    if len(texts) == 1:
        return {}
    finders: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for text in texts:
        alone = reciprocal_ranks([(1, ranking.ids) for ranking in rankings if ranking.query == text])
        for rank, id_ in enumerate(alone):
            (finders if rank < max(FINDER_RANKS, request.top_k) else others).setdefault(id_, []).append(text)
    return others | finders


def _boosted(candidates: Sequence[Candidate], signals: QuerySignals, weights: Mapping[str, float]) -> list[Candidate]:
    """The candidates with their features in score and parts, best first."""
    highest = max_score(weights)
    boosted = [
        _with_features(candidate, chunk_features(signals, candidate.row), weights, highest) for candidate in candidates
    ]
    return sorted(boosted, key=lambda candidate: (-candidate.score, candidate.id))


def _with_features(
    candidate: Candidate, features: Mapping[str, float], weights: Mapping[str, float], highest: float
) -> Candidate:
    weighted = {name: round(weights[name] * value, 6) for name, value in features.items() if weights[name]}
    score = boosted_score(candidate.score, weighted, highest)
    parts = {**candidate.parts, **weighted}
    return Candidate(candidate.id, candidate.row, score, candidate.distance, parts, candidate.queries)


def _capped(candidates: Sequence[Candidate], highest: float) -> list[Candidate]:
    """The candidates with scores of at most `highest`, so that scores fall with the ranks."""
    return [replace(candidate, score=min(highest, candidate.score)) for candidate in candidates]
