"""Hits of several tools, each ranked in its own way, as one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from api.search.rank.fusion import reciprocal_ranks
from schemas.across import PlacedHit
from schemas.search import Hit


@dataclass(frozen=True, slots=True)
class Part:
    """What one tool found (None: what was found without an index), best first; `files` are the hits' files anywhere."""

    tool_id: UUID | None
    hits: Sequence[Hit]
    files: Sequence[UUID]


def merged(parts: Sequence[Part], top_k: int, *, by_file: bool) -> list[PlacedHit]:
    """The best hits by the sum of their reciprocal ranks; of equal ones that with the better score of its own tool.

    The same place in the same file is one hit, the better of both; with `by_file` the same file is.
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
