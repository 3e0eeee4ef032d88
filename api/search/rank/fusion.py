"""Several rankings made one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

Id = TypeVar("Id", str, UUID)

#: How fast ranks lose weight. Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet" (2009), have
#: 60 for long rankings by many systems; of two or three legs, 10 finds more on every set of `make bench-search`.
RANK_CONSTANT = 10


def reciprocal_ranks(rankings: Iterable[tuple[float, Sequence[Id]]]) -> dict[Id, float]:
    """Ids with scores from 0 to 1, best first, of rankings with a weight each. Ties go by id.

    An id that every ranking puts first has 1. A ranking that found nothing takes no part.
    """
    weighted = [(weight, ids) for weight, ids in rankings if weight > 0 and ids]
    best = sum(weight for weight, _ in weighted) / (RANK_CONSTANT + 1)
    scores: dict[Id, float] = defaultdict(float)
    for weight, ids in weighted:
        for rank, id_ in enumerate(ids, start=1):
            scores[id_] += weight / (RANK_CONSTANT + rank) / best
    return by_score(scores)


def ranks_and_values(legs: Iterable[tuple[float, Sequence[Id], Sequence[float]]]) -> dict[Id, float]:
    """As `reciprocal_ranks`, but half of what a leg says is the value, from 0 to 1, that it gives each id.

    Ranks alone do not tell a leg that stands out from one that guesses: Bruch, Gai and Ingber, "An Analysis of Fusion
    Functions for Hybrid Retrieval" (2023). Values alone tell too little of legs that are far apart.
    """
    weighted = [(weight, ids, values) for weight, ids, values in legs if weight > 0 and ids]
    total = 2 * sum(weight for weight, _, _ in weighted)
    scores: dict[Id, float] = defaultdict(float)
    for weight, ids, values in weighted:
        share = weight / total
        for rank, (id_, value) in enumerate(zip(ids, values, strict=True), start=1):
            scores[id_] += share * ((RANK_CONSTANT + 1) / (RANK_CONSTANT + rank) + value)
    return by_score(scores)


def by_score(scores: Mapping[Id, float]) -> dict[Id, float]:
    """The same scores, best first; equal ones by id."""
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
