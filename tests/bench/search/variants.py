"""Compares rankings over recordings: the service's own, and each with one part of it switched off.

A change is worth keeping if it gains on average over the folds, and no fold loses more than one standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import fmean
from typing import NamedTuple

from api.search.rank.confidence import ANSWERING_HITS, FITS, Confidence
from api.search.rank.weights import LEG_WEIGHTS, RANKING_WEIGHTS, WEIGHTS, Weights
from schemas.queries.search import Query
from tests.bench.search.measures import MEASURES, Ranks, ranks
from tests.bench.search.parts import FILES, part
from tests.bench.search.recorded import Recording, passages, ranked, ranking
from tests.bench.search.trees.coverage import Mean, difference

DEPTH = 10
#: The score from which a caller may expect an answer, and the ranges of scores that are compared.
SURE, BINS = 0.5, 10


@dataclass(frozen=True, slots=True)
class Variant:
    """Weights that differ from the service's own, and the mode of the search."""

    ranking_weights: Mapping[str, float] = field(default_factory=dict)
    leg_weights: Mapping[str, float] = field(default_factory=dict)
    mode: str = "hybrid"


OWN = "hybrid+boost"
LEGS = ("keyword", "vector")
#: What is compared, by the name of the row.
VARIANTS = {
    OWN: Variant(),
    **{leg: Variant(mode=leg) for leg in LEGS},
    **{f"without {name}": Variant({name: 0.0}) for name, weight in RANKING_WEIGHTS.items() if weight},
    "code leg as text": Variant(leg_weights={"prose_code": 1.0}),
}

#: For each variant, the ranks of each question's labels in each fold.
Found = dict[str, dict[str, list[Ranks]]]


def compare(folds: Mapping[str, Recording], measures: Sequence[str]) -> None:
    """Print each variant's mean over the folds, what it changes, its worst fold, and two standard errors.

    The last row is how far the service's own ranking is above its better leg.
    """
    found = {
        name: {fold: found_by(variant, each) for fold, each in folds.items()} for name, variant in VARIANTS.items()
    }
    for measure in measures:
        _show(measure, {name: _values(of_folds, MEASURES[measure]) for name, of_folds in found.items()})


def _show(measure: str, values: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    own = values[OWN]
    _row(measure, *own, "mean", "change", "worst", "two errors")
    for name, of_folds in values.items():
        cells = [*(fmean(of_fold) for of_fold in of_folds.values()), fmean(map(fmean, of_folds.values()))]
        change = _change(of_folds, own)
        worst = min(fmean(of_fold) - fmean(own[fold]) for fold, of_fold in of_folds.items())
        _row(name, *(f"{cell:.3f}" for cell in cells), *(f"{x:+.3f}" for x in (change.value, worst, 2 * change.error)))
    above = [fmean(of_own) - max(fmean(values[leg][fold]) for leg in LEGS) for fold, of_own in own.items()]
    _row("above better leg", *(f"{gain:+.3f}" for gain in [*above, fmean(above)]))


def tell_apart(folds: Mapping[str, Recording], without_answer: Mapping[str, Recording]) -> None:
    """Print how well the confidence tells questions with an answer from those without, as AUC.

    The other columns are the shares of both that get the note `nothing_fits_well`. The last rows are means of searches
    among a few files of each folder, and how far scores are chances: their calibration error, how well they tell hits
    from misses, and the share of hits where they are at least a half.
    """
    rows = {fold: _told_apart(_fits(each), _fits(without_answer[fold])) for fold, each in folds.items()}
    rows["mean"] = _means(list(rows.values()))
    for files in FILES:
        parts = {fold: (part(each, files), part(without_answer[fold], files)) for fold, each in folds.items()}
        rows[f"among {files}"] = _means(
            [_told_apart(_fits(each), _fits(other)) for each, other in parts.values() if each.recorded]
        )
    _row("", "AUC", "noted", "noted of none")
    for fold, cells in rows.items():
        _row(fold, *(f"{cell:.3f}" for cell in cells))
    judged = [each for recording in folds.values() for each in _judged(recording)]
    others = [each.answers for recording in without_answer.values() for each in _judged(recording)]
    hits, misses = ([each.answers for each in judged if each.is_hit is of] for of in (True, False))
    sure = [each.is_hit for each in judged if each.answers >= SURE]
    _row("score", "ECE", "AUC", "right if sure", "sure of none")
    error = calibration_error([(each.answers, each.is_hit) for each in judged])
    cells = [error, auc(hits, misses) if misses else nan, fmean(sure), fmean(score >= SURE for score in others)]
    _row("", *(f"{cell:.3f}" for cell in cells))


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each column."""
    return [fmean(column) for column in zip(*rows, strict=True)]


def _told_apart(scores: Sequence[float], others: Sequence[float]) -> list[float]:
    return [auc(scores, others), *(fmean(score < FITS for score in every) for every in (scores, others))]


def auc(scores: Sequence[float], others: Sequence[float]) -> float:
    """How often one of `scores` is above one of the `others`; equal ones count half."""
    return fmean((score > other) + (score == other) / 2 for score in scores for other in others)


def calibration_error(scores: Sequence[tuple[float, bool]]) -> float:
    """The mean distance of ten ranges of scores from their shares of hits, by their sizes."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for score, is_hit in scores:
        bins.setdefault(min(BINS - 1, int(BINS * score)), []).append((score, is_hit))
    return sum(abs(sum(score - is_hit for score, is_hit in each)) for each in bins.values()) / len(scores)


class _Judged(NamedTuple):
    """The confidence of a question, and whether one of the first five hits answers it."""

    fits: float
    answers: float
    is_hit: bool


def _judged(recording: Recording) -> list[_Judged]:
    judged = []
    for each in recording.recorded:
        found = ranking(Query(query=each.question.query), WEIGHTS, each, recording.rows)
        sure = found.confidence or Confidence(0.0, 0.0)
        is_hit = any(ranks(each.question.relevant, passages(found.candidates, ANSWERING_HITS)))
        judged.append(_Judged(sure.fits, sure.answers, is_hit))
    return judged


def _fits(recording: Recording) -> list[float]:
    return [each.fits for each in _judged(recording)]


def found_by(variant: Variant, recording: Recording) -> list[Ranks]:
    weights = Weights({**LEG_WEIGHTS, **variant.leg_weights}, {**RANKING_WEIGHTS, **variant.ranking_weights})
    requests = [
        Query.model_validate({"query": each.question.query, "mode": variant.mode}) for each in recording.recorded
    ]
    return [
        ranks(each.question.relevant, passages(ranked(request, weights, each, recording.rows), DEPTH))
        for request, each in zip(requests, recording.recorded, strict=True)
    ]


def _values(folds: Mapping[str, Sequence[Ranks]], measure: Callable[[Ranks], float]) -> dict[str, list[float]]:
    return {fold: [measure(found) for found in of_fold] for fold, of_fold in folds.items()}


def _change(values: Mapping[str, Sequence[float]], base: Mapping[str, Sequence[float]]) -> Mean:
    """The mean change of a question, and its standard error."""
    return difference(
        [value for of_fold in values.values() for value in of_fold],
        [value for of_fold in base.values() for value in of_fold],
    )


def _row(name: str, *cells: str) -> None:
    print(f"{name:20}" + "".join(f"{cell:>14}" for cell in cells), flush=True)
