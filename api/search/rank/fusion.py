"""Fuses several rankings into one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

Id = TypeVar("Id", str, UUID)

#: How slowly weight falls with rank. Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet"
#: (2009), use 60 for long rankings by many systems. With two or three legs, 10 finds more on every set of
#: `make bench-search`.
RANK_CONSTANT = 10


def reciprocal_ranks(rankings: Iterable[tuple[float, Sequence[Id]]]) -> dict[Id, float]:
    """Fuse weighted rankings. Returns ids with scores from 0 to 1, best first; ties are ordered by id.

    An id that every ranking puts first scores 1. Empty rankings are ignored.
    """
    weighted = [(weight, ids) for weight, ids in rankings if weight > 0 and ids]
    best = sum(weight for weight, _ in weighted) / (RANK_CONSTANT + 1)
    scores: dict[Id, float] = defaultdict(float)
    for weight, ids in weighted:
        for rank, id_ in enumerate(ids, start=1):
            scores[id_] += weight / (RANK_CONSTANT + rank) / best
    return by_score(scores)


def ranks_and_values(legs: Iterable[tuple[float, Sequence[Id], Sequence[float]]]) -> dict[Id, float]:
    """As `reciprocal_ranks` without its order, but half of a leg's share depends on the value that it gives each id.

    Values are 0 to 1.

    Ranks alone do not distinguish a confident leg from a guessing one: Bruch, Gai and Ingber, "An Analysis of Fusion
    Functions for Hybrid Retrieval" (2023). Values alone say too little about legs that are far apart.
    """
    weighted = [(weight, ids, values) for weight, ids, values in legs if weight > 0 and ids]
    total = 2 * sum(weight for weight, _, _ in weighted)
    scores: dict[Id, float] = defaultdict(float)
    for weight, ids, values in weighted:
        share = weight / total
        for rank, (id_, value) in enumerate(zip(ids, values, strict=True), start=1):
            scores[id_] += share * ((RANK_CONSTANT + 1) / (RANK_CONSTANT + rank) + value)
    return dict(scores)


def by_score(scores: Mapping[Id, float]) -> dict[Id, float]:
    """Sort scores, best first; ties by id."""
    # two sorts without a function of our own take half the time of one by pairs
    ids = sorted(sorted(scores), key=scores.__getitem__, reverse=True)
    return {id_: scores[id_] for id_ in ids}
