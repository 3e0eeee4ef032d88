"""Merges the separately ranked hits of several tools into one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate
from math import inf
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID, uuid5

from api.search.rank.fusion import reciprocal_ranks
from schemas.content.source import EmbedderProfile
from schemas.queries.across import PlacedHit
from schemas.queries.search import Hit


@dataclass(frozen=True, slots=True)
class ToolHits:
    """The hits of one tool, best first. `tool_id` is None for unindexed files.

    `files` are the hits' files, by ids that are the same in all tools. Distances compare between parts of one `model`;
    None compares with no other part.
    """

    tool_id: UUID | None
    hits: Sequence[Hit]
    files: Sequence[UUID]
    model: EmbedderProfile | None = None


class _RankedHit(NamedTuple):
    """A hit and its rank in its own tool, from 0."""

    rank: int
    hit: Hit
    tool_id: UUID | None

    @property
    def order(self) -> tuple[int, float]:
        """Sorts better hits first."""
        return self.rank, -self.hit.score


def merged(parts: Sequence[ToolHits], top_k: int, *, by_file: bool) -> list[PlacedHit]:
    """Rank hits of tools with one model by distance. With several models, fuse these rankings by reciprocal ranks.

    Ties go by the score in their own tool, then by path, then by the order of `parts`. Hits at the same place of a file
    are merged into the better one. With `by_file`, all hits of a file are.
    """
    best: dict[UUID, _RankedHit] = {}
    rankings = []
    for of_model in _by_model(parts):
        ranked = [(_merge_key(hit, file, by_file), hit) for hit, file in of_model]
        rankings.append((1.0, list(dict.fromkeys(key for key, _ in ranked))))
        for key, hit in ranked:
            if key not in best or hit.order < best[key].order:
                best[key] = hit
    scores = reciprocal_ranks(rankings)
    places = {part.tool_id: number for number, part in enumerate(parts)}

    def order(key: UUID) -> tuple[float, float, str, str, int, int]:
        _, hit, tool_id = best[key]
        return -scores[key], -hit.score, hit.file_path, hit.file_id_path, hit.chunk_index, places[tool_id]

    ordered = sorted(scores, key=order)
    return [_placed(best[key], scores[key]) for key in ordered[:top_k]]


def _by_model(parts: Sequence[ToolHits]) -> list[list[tuple[_RankedHit, UUID]]]:
    """One ranking of hits with their files for each model, and for each part without one.

    A part that has no distance, as before its vectors are there, has a ranking of its own: it would be behind all.
    """
    groups: dict[object, list[ToolHits]] = {}
    for number, part in enumerate(parts):
        is_near = any(hit.distance is not None for hit in part.hits)
        groups.setdefault(part.model if is_near and part.model else number, []).append(part)
    return [
        [(hit, file) for _, hit, file in merge(*map(_nearest, group), key=itemgetter(0))] for group in groups.values()
    ]


def _nearest(part: ToolHits) -> list[tuple[float, _RankedHit, UUID]]:
    """The hits in the order of their tool, each with the distance of the nearest that is not before it.

    So a hit that only words found stands with the hits behind it, and no tool's order changes.
    """
    distances = [inf if hit.distance is None else hit.distance for hit in part.hits]
    nearest = list(accumulate(reversed(distances), min))[::-1]
    hits = (_RankedHit(rank, hit, part.tool_id) for rank, hit in enumerate(part.hits))
    return list(zip(nearest, hits, part.files, strict=True))


def _merge_key(ranked: _RankedHit, file: UUID, by_file: bool) -> UUID:
    """The same id for hits that are merged."""
    hit = ranked.hit
    return uuid5(file, "" if by_file else f"{hit.level} {hit.start_char} {hit.end_char}")


def _placed(ranked: _RankedHit, score: float) -> PlacedHit:
    return PlacedHit.model_validate({**dict(ranked.hit), "score": round(score, 6), "tool_id": ranked.tool_id})
