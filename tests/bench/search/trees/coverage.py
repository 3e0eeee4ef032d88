"""Coverage of the needed places, its standard error, and the paired difference from plain search."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from tests.bench.search.measures import ranks, recall
from tests.bench.search.questions import Passage, Question

DEPTH = 10


class Mean(NamedTuple):
    """A mean with its standard error."""

    value: float
    error: float


def coverage(question: Question, passages: Sequence[Passage]) -> float:
    """Share of the needed places among the first ten passages."""
    return recall(ranks(question.relevant, passages), DEPTH)


def mean(values: Sequence[float]) -> Mean:
    """The mean over questions; the error is 0 for a single one."""
    return Mean(fmean(values), stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0)


def difference(values: Sequence[float], others: Sequence[float]) -> Mean:
    """The mean of what each question gains over `others`."""
    return mean([value - other for value, other in zip(values, others, strict=True)])
