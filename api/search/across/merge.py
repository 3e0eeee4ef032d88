"""Merges the separately ranked hits of several tools into one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


def merged(parts: Sequence[Part], top_k: int, *, by_file: bool) -> list[PlacedHit]:
    """Rank hits by the sum of their reciprocal ranks, then by the score in their own tool.

    Hits at the same place of a file are merged into the better one. With `by_file`, all hits of a file are.
    """
    best: dict[UUID, tuple[int, Hit, UUID | None]] = {}
    rankings = []
    for part in parts:
        keys = [_key(hit, file, by_file) for hit, file in zip(part.hits, part.files, strict=True)]
        rankings.append((1.0, list(dict.fromkeys(keys))))
        for rank, (key, hit) in enumerate(zip(keys, part.hits, strict=True)):
            held = best.get(key)
            if held is None or (rank, -hit.score) < (held[0], -held[1].score):
                best[key] = rank, hit, part.tool_id
    fused = reciprocal_ranks(rankings)
    ordered = sorted(fused, key=lambda key: (-fused[key], -best[key][1].score, best[key][1].chunk_id))
    return [_placed(best[key][1], best[key][2], fused[key]) for key in ordered[:top_k]]


def _key(hit: Hit, file: UUID, by_file: bool) -> UUID:
    place = "" if by_file else f"{hit.level} {hit.start_char} {hit.end_char}"
    return uuid5(file, place)


def _placed(hit: Hit, tool_id: UUID | None, score: float) -> PlacedHit:
    return PlacedHit.model_validate({**dict(hit), "score": round(min(1.0, score), 6), "tool_id": tool_id})
