"""Merges the separately ranked hits of several tools into one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid5

from api.search.rank.fusion import reciprocal_ranks
from schemas.across import PlacedHit
from schemas.search import Hit


@dataclass(frozen=True, slots=True)
class Part:
    """The hits of one tool, best first. `tool_id` is None for unindexed files.

    `files` are the hits' files, by ids that are the same in all tools.
    """

    tool_id: UUID | None
    hits: Sequence[Hit]
    files: Sequence[UUID]


class _RankedHit(NamedTuple):
    """A hit and its rank in its own tool, from 0."""

    rank: int
    hit: Hit
    tool_id: UUID | None

    @property
    def order(self) -> tuple[int, float]:
        """Sorts better hits first."""
        return self.rank, -self.hit.score


def merged(parts: Sequence[Part], top_k: int, *, by_file: bool) -> list[PlacedHit]:
    """Rank hits by the sum of their reciprocal ranks, then by the score in their own tool.

    Hits at the same place of a file are merged into the better one. With `by_file`, all hits of a file are.
    """
    best: dict[UUID, _RankedHit] = {}
    rankings = []
    for part in parts:
        keys = [_merge_key(hit, file, by_file) for hit, file in zip(part.hits, part.files, strict=True)]
        rankings.append((1.0, list(dict.fromkeys(keys))))
        for rank, (key, hit) in enumerate(zip(keys, part.hits, strict=True)):
            ranked = _RankedHit(rank, hit, part.tool_id)
            if key not in best or ranked.order < best[key].order:
                best[key] = ranked
    scores = reciprocal_ranks(rankings)
    ordered = sorted(scores, key=lambda key: (-scores[key], -best[key].hit.score, best[key].hit.chunk_id))
    return [_placed(best[key], scores[key]) for key in ordered[:top_k]]


def _merge_key(hit: Hit, file: UUID, by_file: bool) -> UUID:
    """The same id for hits that are merged."""
    return uuid5(file, "" if by_file else f"{hit.level} {hit.start_char} {hit.end_char}")


def _placed(ranked: _RankedHit, score: float) -> PlacedHit:
    return PlacedHit.model_validate({**dict(ranked.hit), "score": round(min(1.0, score), 6), "tool_id": ranked.tool_id})
