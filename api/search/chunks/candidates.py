"""Fuses the legs' results into one ranking of candidates, joins their live rows, boosts them, and reranks them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from api.search.chunks.file_depth import Files, best_of_each_file
from api.search.chunks.legs import Ranking, likeness
from api.search.query.index_search import IndexSearch, SearchReport, note
from api.search.rank.boosts import QuerySignals, chunk_features, max_score, name_share, query_signals
from api.search.rank.confidence import (
    AGREEING,
    ANSWERING_HITS,
    COUNTED_CHUNKS,
    COUNTED_HITS,
    USUAL_AGREEMENT,
    USUAL_FIFTH,
    Confidence,
    Evidence,
    HitTexts,
    confidence,
)
from api.search.rank.duplicates import MAX_COMPARED, near_duplicates
from api.search.rank.files import FoundChunk, crowding, file_parts
from api.search.rank.fusion import by_score, ranks_and_values, reciprocal_ranks, weighted_sums
from api.search.rank.rerank import rerank_by_model
from api.search.rank.sureness import CODE, COMPARED_RANK, PROSE, VectorTrust, sureness_factors
from api.search.rank.weights import Weights
from schemas.errors import RerankUnavailable
from schemas.queries.search import SearchRequest
from worker.state.search.found_chunks import HitRow
from worker.vectors import Ranked

#: Chunks ranked by their features.
BOOSTED_CHUNKS = 64
#: Minimum number of chunks that are checked for near-duplicates.
MIN_DEDUPLICATED = 20
#: Types of files whose words are mostly identifiers.
CODE_TYPES = frozenset({"code", "json", "yaml", "toml", "csv"})
#: A query counts as finding a hit if the hit is among this many first results of that query alone.
FINDER_RANKS = 10
#: How fast the weight of vectors falls with the share of chunks that have one. Most chunks near a query are not among
#: these, so those that are must not outvote words. `ONLY=partial make bench-search` measures it.
PART_EXPONENT = 2
#: Share of the chunks that must have vectors for a confidence.
KNOWN_SHARE = 0.9
#: The highest score of a first hit of which nobody knows whether it answers. Among hits of other folders it stands
#: between those that probably do and those that probably do not.
UNKNOWN = 0.5
#: Share of a rerank model's score in the score of a hit. The model reads words, but knows neither files nor names.
MODEL_SHARE = 0.7

_score_of = attrgetter("score")
#: The `place` of a candidate's row. An `attrgetter` takes a third of the time of a property.
_place = attrgetter("row.file_path", "row.file_id_path", "row.chunk_index")


@dataclass(frozen=True, slots=True)
class Fusion:
    """The rankings that count, the scores of their ids (best first), and the chunks that define a name of the queries.

    `prose` are the scores of ids that are prose, where words count differently from code.
    """

    rankings: Sequence[Ranking]
    scores: Mapping[str, float]
    defining: Collection[str]
    prose: Mapping[str, float] = field(default_factory=dict)


# a query makes hundreds, and creating a frozen dataclass takes several times as long
class Candidate(NamedTuple):
    """A chunk that may become a hit, with its row, its ranks in the legs, and the files that have nearly its text.

    `parts` add up to its score; they are empty unless the request wants them explained, as they take longer than the
    score.
    """

    id: str
    row: HitRow
    score: float
    distance: float | None
    parts: Mapping[str, float]
    queries: Sequence[str]
    ranks: Mapping[str, float]
    also_in: Sequence[str] = ()


class RankedCandidates(NamedTuple):
    """Candidates, best first, and how sure they are; None if that is not known."""

    candidates: Sequence[Candidate]
    confidence: Confidence | None


def fuse(request: SearchRequest, weights: Weights, rankings: Sequence[Ranking], defining: Collection[str]) -> Fusion:
    """Fuse the rankings, by ranks and values."""
    # in mode `vector`, keyword legs only serve whole files
    counted = [ranking for ranking in rankings if request.mode != "vector" or ranking.kind == "vector"]
    if request.mode == "vector" and len(counted) == 1:
        return Fusion(counted, {result.id: min(1.0, max(0.0, 1 - result.value)) for result in counted[0].results}, ())
    of_code, of_prose = _fused(counted, weights.legs)
    either = by_score({id_: max(score, of_prose.get(id_, 0.0)) for id_, score in of_code.items()})
    return Fusion(counted, {id_: of_code[id_] for id_ in either}, defining, of_prose)


def _fused(rankings: Sequence[Ranking], weights: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Ids with scores from 0 to 1, in code and in prose."""
    shares = {query: name_share(query) for query in {each.query for each in rankings}}
    legs = [(each.ids, ranks_and_values(each.ranks, each.values)) for each in rankings]
    of_code, of_prose = (
        weighted_sums(
            (weight, ids, values)
            for weight, (ids, values) in zip(_leg_weights(rankings, shares, weights, kind, trust), legs, strict=True)
        )
        for kind, trust in (("language", CODE), ("prose", PROSE))
    )
    return of_code, of_prose


def _leg_weights(
    rankings: Sequence[Ranking],
    shares: Mapping[str, float],
    weights: Mapping[str, float],
    kind: str,
    trust: VectorTrust,
) -> Iterator[float]:
    """The weight of each leg in a kind of text.

    `shares` says how much each query is about names, and the weights for names count by that share. The other weights
    depend on how sure the legs of the query are. A leg counts less that could find a part of the chunks, or that cannot
    read the query's language.
    """
    factors = _factors(rankings, trust)
    for number, each in enumerate(rankings):
        share = shares[each.query]
        language = factors[number] * each.legibility * weights[f"{kind}_{each.kind}"]
        yield each.share**PART_EXPONENT * (share * weights[f"name_{each.kind}"] + (1 - share) * language)


def _factors(rankings: Sequence[Ranking], trust: VectorTrust) -> dict[int, float]:
    """The weight of each ranking among those of its query, by its number."""
    of_query: dict[str, list[int]] = {}
    for number, each in enumerate(rankings):
        of_query.setdefault(each.query, []).append(number)
    return {
        number: factor
        for numbers in of_query.values()
        for number, factor in zip(
            numbers,
            sureness_factors([(rankings[n].kind, rankings[n].first_scores) for n in numbers], trust),
            strict=True,
        )
    }


def wanted_ids(request: SearchRequest, fusion: Fusion, files: Files) -> list[str]:
    """The ids whose rows are ranked: the best ones, the best of each of the best files, and those that define."""
    count = max(BOOSTED_CHUNKS, 2 * request.top_k)
    best = [*list(fusion.scores)[:count], *best_of_each_file(fusion.scores, files, count)]
    return list(dict.fromkeys([*best, *sorted(fusion.defining)]))


def joined(request: SearchRequest, fusion: Fusion, rows: Mapping[str, HitRow]) -> list[Candidate]:
    """The ids that have a live row, best first, equal ones by their place. Chunks that no leg found come last."""
    texts, explain = request.texts, request.explain
    distances, finders = _distances(fusion.rankings), _finders(request, fusion.rankings)
    ranks = _ranks(fusion.rankings) if explain else {}
    found = [
        Candidate(
            *(id_, row, score, distances.get(id_), {"found": score} if explain else {}),
            *(finders.get(id_, texts), ranks.get(id_, {})),
        )
        for id_, row in rows.items()
        for score in (_score(fusion, id_, row),)
    ]
    found.sort(key=_place)
    found.sort(key=_score_of, reverse=True)
    return found


def _score(fusion: Fusion, id_: str, row: HitRow) -> float:
    """The score of a chunk by its type of file."""
    scores = fusion.scores if row.file_type in CODE_TYPES or not fusion.prose else fusion.prose
    return scores.get(id_, 0.0)


def rank_candidates(
    request: SearchRequest, weights: Weights, fusion: Fusion, rows: Mapping[str, HitRow]
) -> RankedCandidates:
    """The ids that have a live row, by their features.

    Scores begin at the confidence. If it is not known, they begin at `UNKNOWN` of what the legs give the first one.
    """
    found = joined(request, fusion, rows)
    if request.ranking == "none":
        return RankedCandidates(found, None)
    boosted = boost(request, weights.features, found, fusion.defining)
    sure = confidence_of(request, fusion, boosted)
    if not boosted:
        return RankedCandidates(boosted, sure)
    first = boosted[0]
    begin = sure.answers if sure else max(first.score, UNKNOWN * _score(fusion, first.id, first.row))
    return RankedCandidates(calibrated(boosted, begin), sure)


def rerank_candidates(search: IndexSearch, candidates: Sequence[Candidate]) -> tuple[Sequence[Candidate], SearchReport]:
    """Rerank by the model or LLM that the request names. If it fails, keeps the order and adds a note."""
    request, query = search.request, "\n".join(search.request.texts)
    if request.ranking not in {"model", "llm"} or not candidates:
        return candidates, SearchReport()
    by_id = {candidate.id: candidate for candidate in candidates}
    texts = [(candidate.id, _with_place(candidate)) for candidate in candidates]
    started = time.perf_counter()
    try:
        scores = rerank_by_model(search.resources, request.ranking, query, texts, check=search.disconnect.check)
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
    return "\n".join(filter(None, (row.file_path, row.context, row.ranked_text)))


def _blended(candidate: Candidate, score: float) -> Candidate:
    """The candidate with its score joined by the model's."""
    return scaled(candidate, 1 - MODEL_SHARE, {"rerank": MODEL_SHARE * score})


def boost(
    request: SearchRequest, weights: Mapping[str, float], candidates: Sequence[Candidate], defining: Collection[str]
) -> Sequence[Candidate]:
    """Rank the first ones by their features, then the others as they were, then near-duplicates of better ones."""
    signals = query_signals(request.texts, defining, request.context)
    # chunks that rank behind all those of one file may be the best of their own files
    boosted_chunks = len(candidates) if request.group_by_file else BOOSTED_CHUNKS
    first = [each for rank, each in enumerate(candidates) if rank < boosted_chunks or each.id in defining]
    others = [each for each in candidates[boosted_chunks:] if each.id not in defining]
    file_weights = {**weights, "coherence": signals.about_files * weights["coherence"]}
    scored = _Scored.of(first)
    _add_features(scored, signals, weights)
    _add_files(scored, file_weights, grouped=request.group_by_file)
    boosted = [each.candidate() for each in _best_first(scored)]
    kept, duplicates = _without_repeated_texts(boosted, first=max(MIN_DEDUPLICATED, request.top_k))
    behind = _capped(others, min((candidate.score for candidate in kept), default=0.0))
    last = _capped(duplicates, min((candidate.score for candidate in behind or kept), default=0.0))
    return [*kept, *behind, *last]


def _without_repeated_texts(candidates: Sequence[Candidate], *, first: int) -> tuple[list[Candidate], list[Candidate]]:
    """The candidates, and those of the `first` that nearly duplicate a better one of their file.

    Of the first, each names the files of its twins.
    """
    first = min(first, MAX_COMPARED)
    repeated, twins = near_duplicates((each.row.file_id, each.row.ranked_text) for each in candidates[:first])
    kept = [
        each._replace(also_in=[candidates[twin].row.file_path for twin in twins[number]]) if number in twins else each
        for number, each in enumerate(candidates)
        if number not in repeated
    ]
    return kept, [candidates[number] for number in sorted(repeated)]


def calibrated(candidates: Sequence[Candidate], begin: float) -> Sequence[Candidate]:
    """Candidates, which come best first, with scores that begin at `begin`."""
    if not candidates or candidates[0].score <= 0:
        return candidates
    return [scaled(each, begin / candidates[0].score, {}) for each in candidates]


def confidence_of(request: SearchRequest, fusion: Fusion, candidates: Sequence[Candidate]) -> Confidence | None:
    """The probability that candidates, best first, answer the query that they answer best.

    None if no distance is known, or those of many chunks are not: the nearest may be among them. None too if the model
    was never fitted: what its cosines say of a query without an answer, or in another language, is not known.
    """
    distances = [each.distance for each in candidates if each.distance is not None]
    if not distances or any(each.share < KNOWN_SHARE or not each.is_fitted for each in fusion.rankings):
        return None
    unrelated = max((each.unrelated for each in fusion.rankings), default=0.0)
    nearest = likeness(min(distances), unrelated)
    texts = HitTexts.of([f"{each.row.file_path}\n{each.row.ranked_text}" for each in candidates[:COUNTED_HITS]])
    evidence = {
        query: Evidence(
            nearest,
            _agreement(fusion.rankings, query),
            bool(fusion.defining),
            texts,
            _lead(fusion.rankings, query),
            _fifth(candidates),
            _compared(fusion.rankings, query),
        )
        for query in request.texts
    }
    return max(confidence(query, each) for query, each in evidence.items())


def _agreement(rankings: Sequence[Ranking], query: str) -> float:
    """The share of the nearest chunks of a query that keywords find first too."""
    first = {each.kind: each.ids[:AGREEING] for each in rankings if each.query == query}
    nearest = first.pop("vector", [])
    if not nearest or not first:
        return USUAL_AGREEMENT
    return len(set(nearest) & set().union(*first.values())) / len(nearest)


def _lead(rankings: Sequence[Ranking], query: str) -> float:
    """The lead of the first score over the fifth, 0 to 1, for a query in words of natural language."""
    first = next((each.first_scores for each in rankings if (each.query, each.kind) == (query, "text")), [])
    if not first or first[0] <= 0:
        return 0.0
    return max(0.0, 1 - first[-1] / first[0]) if len(first) == COMPARED_RANK else 1.0


def _compared(rankings: Sequence[Ranking], query: str) -> int:
    """The number of nearest chunks that a query found: all of a small folder, or of what passes the filters."""
    found = (len(each.results) for each in rankings if (each.query, each.kind) == (query, "vector"))
    return next(found, COUNTED_CHUNKS)


def _fifth(candidates: Sequence[Candidate]) -> float:
    """The score of the fifth candidate as a share of the first, 0 to 1. Fewer candidates say nothing."""
    if len(candidates) < ANSWERING_HITS or candidates[0].score <= 0:
        return USUAL_FIFTH
    return min(1.0, max(0.0, candidates[ANSWERING_HITS - 1].score) / candidates[0].score)


def _distances(rankings: Sequence[Ranking]) -> dict[str, float]:
    distances: dict[str, float] = {}
    for ranking in rankings:
        if ranking.kind == "vector":
            found = Ranked.of(ranking.results)
            of_query = dict(zip(found.ids, found.values, strict=True))
            nearer = {id_: min(value, of_query[id_]) for id_, value in distances.items() if id_ in of_query}
            distances = {**distances, **of_query, **nearer} if distances else of_query
    return distances


def _ranks(rankings: Sequence[Ranking]) -> dict[str, dict[str, float]]:
    """The best rank of each kind of leg by id, counted from 1."""
    ranks: dict[str, dict[str, float]] = {}
    for ranking in rankings:
        for id_, rank in zip(ranking.ids, ranking.ranks, strict=True):
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


class _Scored:
    """A candidate whose score is being made."""

    __slots__ = ("_found", "parts", "row", "score")

    def __init__(self, found: Candidate) -> None:
        self._found, self.row, self.score, self.parts = found, found.row, found.score, found.parts

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> list[_Scored]:
        """The candidates by their place, which decides between equal scores."""
        return [cls(each) for each in sorted(candidates, key=_place)]

    def add(self, factor: float, added: Mapping[str, float]) -> None:
        """Multiply the score, and add parts to it. See `scaled`."""
        self.score = factor * self.score + sum(added.values())
        if self.parts:
            self.parts = _scaled_parts(self.parts, factor, added)

    def candidate(self) -> Candidate:
        """The candidate with its score now."""
        id_, row, _, distance, _, queries, ranks, also_in = self._found
        return Candidate(id_, row, self.score, distance, self.parts, queries, ranks, also_in)


def _best_first(scored: Sequence[_Scored]) -> list[_Scored]:
    # equal ones stay as they come
    return sorted(scored, key=_score_of, reverse=True)


def _add_features(scored: Sequence[_Scored], signals: QuerySignals, weights: Mapping[str, float]) -> None:
    """Add the features of each chunk to its score."""
    highest = max_score(weights)
    for each in scored:
        features = chunk_features(signals, each.row).items()
        each.add(1 / highest, {name: weights[name] * value / highest for name, value in features})


def _add_files(scored: Sequence[_Scored], weights: Mapping[str, float], *, grouped: bool) -> None:
    """Add to the score of each chunk what its file does."""
    factor = 1 / (1 + max(0.0, weights["coherence"]))
    ranked = _best_first(scored)
    for each, (name, value) in zip(ranked, file_parts(_of_files(ranked, grouped=grouped), weights), strict=True):
        each.add(factor, {name: factor * value})
    ranked = _best_first(scored)
    for each, share in zip(ranked, crowding(_of_files(ranked, grouped=grouped)), strict=True):
        each.add(1, {"crowd": weights["crowd"] * share})


def _of_files(scored: Sequence[_Scored], *, grouped: bool) -> list[FoundChunk]:
    # to hash a `UUID` takes ten times as long as its number
    found = ((each.row, each.score) for each in scored)
    return [
        FoundChunk(row.file_id.int, grouped or row.file_type == "code", score, row.total_chunks > 1)
        for row, score in found
    ]


def scaled(candidate: Candidate, factor: float, added: Mapping[str, float]) -> Candidate:
    """The candidate with its score times `factor`, and parts added, so that the parts add up to the score."""
    id_, row, score, distance, parts, queries, ranks, also_in = candidate
    if parts:
        parts = _scaled_parts(parts, factor, added)
    return Candidate(id_, row, factor * score + sum(added.values()), distance, parts, queries, ranks, also_in)


def _scaled_parts(parts: Mapping[str, float], factor: float, added: Mapping[str, float]) -> Mapping[str, float]:
    old = {name: factor * value for name, value in parts.items()}
    return old | {name: value for name, value in added.items() if value}


def _capped(candidates: Sequence[Candidate], highest: float) -> list[Candidate]:
    """The candidates with scores of at most `highest`, so that scores fall with the ranks."""
    return [scaled(each, 1, {"capped": min(0.0, highest - each.score)}) for each in candidates]
