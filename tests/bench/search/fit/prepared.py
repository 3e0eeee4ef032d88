"""A question with its candidates as numbers, so that other weights rank them in a fraction of a millisecond.

It ranks as the service does; a test compares both. Measure what you keep with `recorded.ranked`, which is the service's
own code.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.search.chunks.candidates import BOOSTED_CHUNKS, CODE_TYPES, MIN_DEDUPLICATED
from api.search.chunks.legs import Ranking
from api.search.rank.boosts import chunk_features, name_share, query_signals
from api.search.rank.duplicates import near_duplicates
from api.search.rank.files import FoundChunk, crowding, file_parts
from api.search.rank.fusion import RANK_CONSTANT
from api.search.rank.sureness import CODE, PROSE, sureness_factors
from api.search.rank.weights import LEG_WEIGHTS, RANKING_WEIGHTS
from schemas.queries.search import Context
from tests.bench.search.measures import Ranks, ranks
from tests.bench.search.questions import Passage, Question
from tests.bench.search.recorded import Recorded, Recording, Rows

#: Passages that measures read.
DEPTH = 10
#: Features of chunks. The other weights are those of files.
FEATURES = tuple(name for name in RANKING_WEIGHTS if name not in {"coherence", "repeat", "crowd"})
#: The kinds of text that `LEG_WEIGHTS` distinguishes beside names.
LANGUAGE, PROSE_KIND = "language", "prose"

Numbers = NDArray[np.float64]
Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question and the chunks that any leg found, by number, ordered by id.

    `gains` are what each leg gives each chunk (legs, chunks). `factors` are how much each leg counts by kind of text.
    `features` are those of `FEATURES` (chunks, features).
    """

    question: Question
    kinds: Sequence[str]
    name_share: float
    factors: Mapping[str, Sequence[float]]
    gains: Numbers
    is_code: NDArray[np.bool_]
    features: Numbers
    defining: Sequence[int]
    about_files: float
    files: Sequence[tuple[Hashable, bool, bool]]
    passages: Sequence[Passage]


def prepared(recording: Recording) -> list[Prepared]:
    """All questions of a recording."""
    return [_prepared(each, recording.rows) for each in recording.recorded]


def found_with(each: Prepared, weights: Weights) -> Ranks:
    """The ranks of a question's labels, with `weights` of legs and features by their names."""
    return ranks(each.question.relevant, [each.passages[n] for n in order(each, weights)[:DEPTH]])


def order(each: Prepared, weights: Weights) -> Sequence[int]:
    """The chunks, best first; only the first ones are free of near-duplicates."""
    of_code, of_prose = (_fused(each, weights, kind) for kind in (LANGUAGE, PROSE_KIND))
    fused = np.where(each.is_code, of_code, of_prose)
    wanted = np.argsort(-np.maximum(of_code, of_prose), kind="stable")[:BOOSTED_CHUNKS].tolist()
    joined = sorted({*wanted, *each.defining}, key=lambda n: (-fused[n], n))
    chosen = np.array(sorted({*joined[:BOOSTED_CHUNKS], *each.defining}), dtype=int)
    scores = fused[chosen] + each.features[chosen] @ np.array([weights[name] for name in FEATURES])
    by_score = np.argsort(-scores, kind="stable")
    numbers, values = chosen[by_score].tolist(), scores[by_score].tolist()
    files = [each.files[n] for n in numbers]
    found = [
        FoundChunk(file, by_file, value, is_part) for (file, by_file, is_part), value in zip(files, values, strict=True)
    ]
    of_files = {"coherence": each.about_files * weights["coherence"], "repeat": weights["repeat"]}
    supported = np.array(values) + [added for _, added in file_parts(found, of_files)]
    best = np.lexsort((numbers, -supported)).tolist()
    again = [found[n]._replace(score=float(supported[n])) for n in best]
    mixed = supported[best] + weights["crowd"] * np.array(crowding(again))
    ranked = [numbers[best[n]] for n in np.lexsort((np.array(numbers)[best], -mixed))]
    repeated, _ = near_duplicates((each.files[n][0], each.passages[n].text) for n in ranked[:MIN_DEDUPLICATED])
    kept = [n for rank, n in enumerate(ranked) if rank not in repeated]
    return [*kept, *(ranked[rank] for rank in sorted(repeated))]


def _fused(each: Prepared, weights: Weights, kind: str) -> Numbers:
    share = each.name_share
    of_legs = np.array(
        [
            share * weights[f"name_{leg}"] + (1 - share) * factor * weights[f"{kind}_{leg}"]
            for leg, factor in zip(each.kinds, each.factors[kind], strict=True)
        ]
    )
    total = of_legs.sum()
    return of_legs @ each.gains / total if total else np.zeros(each.gains.shape[1])


def _prepared(each: Recorded, rows: Rows) -> Prepared:
    query = each.question.query
    legs = [leg for leg in each.rankings if leg.ids]
    found = {id_ for leg in legs for id_ in leg.ids if id_ in rows} | {*each.defining} & rows.keys()
    ids = sorted(found, key=lambda id_: rows[id_].place)
    number = {id_: n for n, id_ in enumerate(ids)}
    signals = query_signals([query], each.defining, Context())
    features = np.zeros((len(ids), len(FEATURES)))
    for n, id_ in enumerate(ids):
        for name, value in chunk_features(signals, rows[id_]).items():
            features[n, FEATURES.index(name)] = value
    first = [(leg.kind, leg.first_scores) for leg in each.rankings]
    factors = {
        kind: [
            factor * leg.legibility
            for factor, leg in zip(sureness_factors(first, trust), each.rankings, strict=True)
            if leg.ids
        ]
        for kind, trust in ((LANGUAGE, CODE), (PROSE_KIND, PROSE))
    }
    chunks = [rows[id_] for id_ in ids]
    return Prepared(
        question=each.question,
        kinds=[leg.kind for leg in legs],
        name_share=name_share(query),
        factors=factors,
        gains=np.stack([_gains(leg, number) for leg in legs]) if legs else np.zeros((0, len(ids))),
        is_code=np.array([row.file_type in CODE_TYPES for row in chunks], dtype=bool),
        features=features,
        defining=[number[id_] for id_ in each.defining if id_ in number],
        about_files=signals.about_files,
        files=[(row.file_id, row.file_type == "code", row.total_chunks > 1) for row in chunks],
        passages=[Passage(row.file_path, row.start_line, row.chunk_text) for row in chunks],
    )


def _gains(leg: Ranking, number: Mapping[str, int]) -> Numbers:
    """What a leg gives each chunk, half by rank and half by value."""
    gains = np.zeros(len(number))
    for rank, (id_, value) in enumerate(zip(leg.ids, leg.values, strict=True), start=1):
        if id_ in number:
            gains[number[id_]] += ((RANK_CONSTANT + 1) / (RANK_CONSTANT + rank) + value) / 2
    return gains


def own_weights() -> dict[str, float]:
    """The service's own weights of legs and features, by name."""
    return {**LEG_WEIGHTS, **RANKING_WEIGHTS}
