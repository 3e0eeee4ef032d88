"""Returns whole files that are not embedded: vectors cannot find them, so the caller reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from api.search.query.filters import Narrowed
from api.search.text.file_text import joined
from schemas.document import text_hash
from schemas.search import Hit
from worker.state.index import chunks
from worker.state.index.tools import Index
from worker.state.postgres import Pool
from worker.vectors import Found


def whole_files(
    pool: Pool, index: Index, narrowed: Narrowed, scores: Mapping[UUID, float], *, files: int, characters: int
) -> list[Hit]:
    """At most `files` whole files that pass the filters, with at most `characters` in total.

    Files with a score come first, best first, then the rest by path. Files that do not fit are skipped.
    """
    values = {**narrowed.values, "index_id": index.id, "characters": characters}
    matched = chunks.unembedded(pool, {**values, "only": list(scores), "without": [], "limit": len(scores)})
    matched.sort(key=lambda found: -scores[found[0]])
    chosen = _fitting(matched, files, characters)
    room = characters - sum(length for _, length in chosen)
    values |= {"characters": room, "only": None, "without": list(scores), "limit": files - len(chosen)}
    chosen += _fitting(chunks.unembedded(pool, values), files - len(chosen), room)
    order = {id_: place for place, (id_, _) in enumerate(chosen)}
    pointer = index.source.get("json_pointer") or ""
    grouped = groupby(chunks.whole(pool, list(order)), key=lambda row: row["file_id"])
    hits = [_hit(list(pieces), pointer, scores.get(id_, 0.0)) for id_, pieces in grouped]
    return sorted(hits, key=lambda hit: order[hit.file_id])


def by_file(rows: Mapping[str, dict[str, Any]], rankings: Sequence[Sequence[Found]]) -> dict[UUID, float]:
    """The best keyword score, 0 to 1, of each unembedded file in the rankings.

    Values of different rankings are not comparable, so each is divided by the best of its own ranking.
    """
    scores: dict[UUID, float] = {}
    for ranking in rankings:
        top = ranking[0].value if ranking else 0.0
        for found in ranking:
            row = rows.get(found.id)
            if row is not None and not row["embedded"]:
                score = found.value / top if top > 0 else 0.0
                scores[row["file_id"]] = max(score, scores.get(row["file_id"], 0.0))
    return scores


def _fitting(found: Sequence[tuple[UUID, int]], files: int, characters: int) -> list[tuple[UUID, int]]:
    chosen: list[tuple[UUID, int]] = []
    for id_, length in found:
        if len(chosen) < files and length <= characters:
            chosen.append((id_, length))
            characters -= length
    return chosen


def _hit(pieces: Sequence[dict[str, Any]], pointer: str, score: float) -> Hit:
    """A hit with the whole file, or the part the tool is narrowed to. Fields of chunks, such as `symbol`, are null."""
    first, text = pieces[0], joined(pieces)
    start = first["start_char"] if pointer else 0
    end = max(piece["end_char"] for piece in pieces) if pointer else len(text)
    shown = text[start:end]
    line = text.count("\n", 0, start) + 1
    return Hit.model_validate(
        {
            **first,
            "chunk_text": shown,
            "content_hash": text_hash(shown),
            "file_name": first["file_path"].rsplit("/", 1)[-1],
            "json_pointer": None if first["json_pointer"] is None else pointer,
            "start_char": start,
            "end_char": end,
            "start_line": line,
            "end_line": line + shown.rstrip("\n").count("\n"),
            **dict.fromkeys(("symbol", "node_type", "scope", "page", "distance")),
            "score": round(score, 6),
            "whole": True,
        }
    )
