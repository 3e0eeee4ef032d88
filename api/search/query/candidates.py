"""Fuses the legs' results into one ranking of candidates, joined with their live rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.search.query.legs import Kind, Ranking, Search
from api.search.rank.boosts import boosted, features, most, phrases, thinned, wanted
from api.search.rank.definition_query import asked_names
from api.search.rank.fusion import by_score, ranks_and_values, reciprocal_ranks
from schemas.search import Asked, Filters
from worker.state.index import chunks
from worker.state.search import symbols

#: Chunks ranked by their features; chunks of the preset `simple`; minimum of chunks checked for near-duplicates.
CANDIDATES, SIMPLE_CANDIDATES, THINNED = 64, 50, 20
#: A query counts as finding a hit if the hit is among this many first results of that query alone.
FINDS = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that may become a hit, with its row. `parts` explains its score."""

    id: str
    row: dict[str, Any]
    score: float
    distance: float | None
    parts: Mapping[str, float]
    queries: Sequence[str]


def ranked(search: Search, found: Sequence[Ranking]) -> list[Candidate]:
    """Live chunks, best first: by the fused legs, and also by features unless `asked.ranking` is "none"."""
    asked, settings = search.asked, search.resources.settings
    legs = [ranking for ranking in found if asked.mode != "vector" or ranking.kind == "vector"]
    boosts = asked.ranking != "none"
    simple = boosts and settings.ranking == "simple" and any(ranking.kind == "vector" for ranking in legs)
    scores = _nearest(legs) if simple else _fused(asked, legs, settings.leg_weights)
    defining = _defining(search) if boosts and not simple else set()
    with search.course.step("rows") as step:
        ids = dict.fromkeys([*list(scores)[: max(CANDIDATES, 2 * asked.top_k)], *sorted(defining)])
        rows = chunks.hits(search.resources.pool, search.index.id, ids)
        step.found = len(rows)
    live = _joined(asked, legs, scores, rows)
    return _boosted(asked, live, defining, settings.ranking_weights) if boosts else live


def _nearest(found: Sequence[Ranking]) -> dict[str, float]:
    """Scores of the preset `simple`: cosine similarity of the nearest few chunks."""
    nearest = [each for ranking in found if ranking.kind == "vector" for each in ranking.found[:SIMPLE_CANDIDATES]]
    return by_score({each.id: 1 - each.value for each in sorted(nearest, key=lambda each: -each.value)})


def _fused(asked: Asked, found: Sequence[Ranking], weights: Mapping[str, float]) -> dict[str, float]:
    """Ids with scores from 0 to 1, best first. A single vector leg is scored by distance alone."""
    if asked.mode == "vector" and len(found) == 1:
        return {each.id: min(1.0, max(0.0, 1 - each.value)) for each in found[0].found}
    return ranks_and_values([(weights[_weight(leg.query, leg.kind)], leg.ids, leg.values) for leg in found])


def _weight(query: str, kind: Kind) -> str:
    """The name of a leg's weight: identifiers and quoted phrases favor keywords, sentences favor vectors."""
    return f"{'name' if asked_names(query) or phrases(query) else 'language'}_{kind}"


def _defining(search: Search) -> set[str]:
    """Chunks that pass the filters and hold the first line of a definition that a query names."""
    names = list(dict.fromkeys(name for text in search.asked.texts for name in asked_names(text)))
    if not names:
        return set()
    pool = search.resources.pool
    found = chunks.at(pool, [(file_id, line) for file_id, line, *_ in symbols.named(pool, search.index.id, names)])
    if search.asked.filters != Filters():
        found = chunks.passing(pool, found, search.narrowed.values)
    return set(found)


def _joined(
    asked: Asked, found: Sequence[Ranking], scores: Mapping[str, float], rows: Mapping[str, dict[str, Any]]
) -> list[Candidate]:
    distances = _distances(found)
    finders = _finders(asked, found)
    ranks = _ranks(found) if asked.explain else {}
    ids = [*(id_ for id_ in scores if id_ in rows), *(id_ for id_ in rows if id_ not in scores)]
    texts = asked.texts
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


def _distances(found: Sequence[Ranking]) -> dict[str, float]:
    distances: dict[str, float] = {}
    for ranking in found:
        for each in ranking.found if ranking.kind == "vector" else ():
            distances[each.id] = min(each.value, distances.get(each.id, each.value))
    return distances


def _ranks(found: Sequence[Ranking]) -> dict[str, dict[str, float]]:
    """The best rank of each kind of leg by id, counted from 1."""
    ranks: dict[str, dict[str, float]] = {}
    for ranking in found:
        for rank, id_ in enumerate(ranking.ids, start=1):
            of_id, name = ranks.setdefault(id_, {}), f"{ranking.kind}_rank"
            of_id[name] = min(rank, of_id.get(name, rank))
    return ranks


def _finders(asked: Asked, found: Sequence[Ranking]) -> dict[str, list[str]]:
    """For each id, the queries that alone would rank it near the top; if none would, those that find it at all."""
    texts = asked.texts
    if len(texts) == 1:
        return {}
    finders: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for text in texts:
        own = reciprocal_ranks([(1, ranking.ids) for ranking in found if ranking.query == text])
        for rank, id_ in enumerate(own):
            (finders if rank < max(FINDS, asked.top_k) else others).setdefault(id_, []).append(text)
    return others | finders


def _boosted(
    asked: Asked, live: Sequence[Candidate], defining: set[str], weights: Mapping[str, float]
) -> list[Candidate]:
    """Rank the first ones by their features, then the others as they were, then near-duplicates of better ones."""
    asks = wanted(asked.texts, defining, asked.context)
    first = [candidate for rank, candidate in enumerate(live) if rank < CANDIDATES or candidate.id in defining]
    highest = most(weights)
    scored = [_with_features(candidate, features(asks, candidate.row), weights, highest) for candidate in first]
    best = sorted(scored, key=lambda candidate: (-candidate.score, candidate.id))
    kept, repeated = thinned(best, lambda candidate: candidate.row["chunk_text"], first=max(THINNED, asked.top_k))
    others = [candidate for candidate in live[CANDIDATES:] if candidate.id not in defining]
    last = min((candidate.score for candidate in kept), default=0.0)
    behind = [replace(candidate, score=min(last, candidate.score)) for candidate in others]
    last = min((candidate.score for candidate in behind), default=last)
    return [*kept, *behind, *(replace(candidate, score=min(last, candidate.score)) for candidate in repeated)]


def _with_features(
    candidate: Candidate, found: Mapping[str, float], weights: Mapping[str, float], highest: float
) -> Candidate:
    added = {name: round(weights[name] * value, 6) for name, value in found.items() if weights[name]}
    score = boosted(candidate.score, added, highest)
    parts = {**candidate.parts, **added}
    return Candidate(candidate.id, candidate.row, score, candidate.distance, parts, candidate.queries)
