"""Measures of one answer, computed from the ranks of its labels."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from statistics import fmean

from tests.bench.search.questions import Label, Passage

#: The 1-based rank of the first passage that answers each label; None if none does.
Ranks = Sequence[int | None]


def ranks(labels: Sequence[Label], passages: Sequence[Passage]) -> list[int | None]:
    """Rank the labels. A passage answers at most one label: the first that has no answer yet."""
    found: list[int | None] = [None] * len(labels)
    for rank, passage in enumerate(passages, 1):
        for number, label in enumerate(labels):
            if found[number] is None and label.fits(passage):
                found[number] = rank
                break
    return found


def recall(found: Ranks, depth: int) -> float:
    """Share of the labels that the first `depth` passages answer."""
    return sum(rank is not None and rank <= depth for rank in found) / len(found)


def ndcg(found: Ranks, depth: int) -> float:
    """Discounted gain of the first `depth` passages, relative to the best order (Järvelin and Kekäläinen, 2002)."""
    gain = sum(1 / log2(rank + 1) for rank in found if rank is not None and rank <= depth)
    return gain / sum(1 / log2(rank + 1) for rank in range(1, min(len(found), depth) + 1))


def reciprocal_rank(found: Ranks) -> float:
    """One divided by the rank of the first passage that answers any label; 0 if none does."""
    return max((1 / rank for rank in found if rank is not None), default=0.0)


MEASURES = {
    "recall@5": lambda found: recall(found, 5),
    "recall@10": lambda found: recall(found, 10),
    "recall@20": lambda found: recall(found, 20),
    "nDCG@10": lambda found: ndcg(found, 10),
    "MRR": reciprocal_rank,
}


def means(answers: Sequence[Ranks]) -> dict[str, float]:
    """The mean of each measure over all questions, by its name."""
    return {name: fmean(measure(found) for found in answers) for name, measure in MEASURES.items()}
