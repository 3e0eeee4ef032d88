"""Several rankings made one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

#: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet" (2009): how fast ranks lose weight.
RANK_CONSTANT = 60


def reciprocal_ranks(rankings: Sequence[Sequence[UUID]]) -> dict[UUID, float]:
    """Ids with scores from 0 to 1, best first; 1 for one that every ranking puts first. Ties go by id."""
    best = len(rankings) / (RANK_CONSTANT + 1)
    scores: dict[UUID, float] = defaultdict(float)
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, start=1):
            scores[id_] += 1 / (RANK_CONSTANT + rank)
    return {id_: score / best for id_, score in sorted(scores.items(), key=lambda item: (-item[1], item[0]))}
