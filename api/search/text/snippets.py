"""Shapes hits for an answer: with their neighbours, one for each file, without bytes, with addresses on the web."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

from schemas.queries.search import Hit, ScoredPiece
from schemas.url import filled
from worker.reading import applied
from worker.reading.blobs import blobs
from worker.state.pool import Pool
from worker.state.search import snippets

#: The line that replaces omitted text of a file.
ELLIPSIS = "…"
#: Characters of a text from which its bytes are not shown. Chunks of words are shorter.
LONG_TEXT = 50_000
#: Fields of a hit that hold other chunks.
_PIECES = ("pieces", "before", "after")

AnyHit = TypeVar("AnyHit", bound=Hit)


def with_neighbours(pool: Pool, index_id: UUID, hits: Sequence[AnyHit], before: int, after: int) -> list[AnyHit]:
    """Add up to `before` and `after` neighbouring chunks of the file to each hit, or around its pieces.

    Hits that are whole files or not text of the file (level above 0) get none, nor do those of files that just changed.
    """
    neighbours = snippets.neighbours(pool, index_id, [_shown_chunks(hit) for hit in hits], before=before, after=after)
    return [
        hit.model_copy(update={"before": in_front, "after": behind})
        for hit, (in_front, behind) in zip(hits, neighbours, strict=True)
    ]


def grouped(hits: Sequence[AnyHit]) -> list[AnyHit]:
    """Merge the hits of each file into one, described by its best chunk; best first, ties keep their order.

    Texts are joined in the file's order, without overlaps. A line `…` stands for omitted chunks. Chunks do not contain
    the white space between them; line breaks, or a space within a line, replace it.
    """
    files: dict[UUID, list[AnyHit]] = {}
    for hit in hits:
        files.setdefault(hit.file_id, []).append(hit)
    return sorted(map(_merged, files.values()), key=attrgetter("score"), reverse=True)


def without_bytes(hit: AnyHit) -> AnyHit:
    """The hit with placeholders for the bytes in long texts: a chunk with a picture has up to a million characters."""
    changed: dict[str, object] = {}
    for name in _PIECES:
        if found := getattr(hit, name):
            changed[name] = [piece.model_copy(update={"chunk_text": _shortened(piece.chunk_text)}) for piece in found]
    if len(hit.chunk_text) > LONG_TEXT:
        changed["chunk_text"] = _shortened(hit.chunk_text)
    return hit.model_copy(update=changed) if changed else hit


def with_urls(hits: Sequence[Hit], template: str | None) -> list[Hit]:
    """Make an address by the template for each hit whose node has none."""
    if template is None:
        return list(hits)
    return [hit if hit.url else hit.model_copy(update={"url": filled(template, hit.__dict__)}) for hit in hits]


def _shortened(text: str) -> str:
    return text if len(text) <= LONG_TEXT else applied(text, blobs(text))


def _shown_chunks(hit: Hit) -> tuple[UUID, list[snippets.ShownChunk]]:
    """The file, and its chunks that the hit shows."""
    if hit.whole or hit.level > 0:
        return hit.file_id, []
    chunks: Sequence[ScoredPiece | Hit] = hit.pieces or [hit]
    return hit.file_id, [snippets.ShownChunk(chunk.chunk_id, chunk.chunk_index, chunk.start_char) for chunk in chunks]


def _merged(hits: Sequence[AnyHit]) -> AnyHit:
    best = max(hits, key=attrgetter("score"))
    ordered = sorted(hits, key=attrgetter("start_char", "end_char"))
    queries = dict.fromkeys(query for hit in hits for query in hit.matched_queries)
    twins = dict.fromkeys(path for hit in hits for path in hit.also_in)
    return best.model_copy(
        update={
            "chunk_text": _joined_text(ordered),
            "start_line": ordered[0].start_line,
            "end_line": max(hit.end_line for hit in hits),
            "start_char": ordered[0].start_char,
            "end_char": max(hit.end_char for hit in hits),
            "matched_queries": list(queries),
            "also_in": list(twins),
            "pieces": [ScoredPiece.model_validate(hit, from_attributes=True) for hit in ordered],
        }
    )


def _joined_text(ordered: Sequence[Hit]) -> str:
    last, *others = ordered
    parts = [last.chunk_text]
    for hit in others:
        if hit.start_char > last.end_char:
            parts += _separator(last, hit), hit.chunk_text
        else:
            parts.append(hit.chunk_text[last.end_char - hit.start_char :])
        last = max(last, hit, key=attrgetter("end_char"))
    return "".join(parts)


def _separator(last: Hit, following: Hit) -> str:
    """The replacement for the text between two hits. Between neighbouring chunks it is little but white space."""
    if following.chunk_index == last.chunk_index + 1:
        return "\n" * (following.start_line - last.start_line - last.chunk_text.count("\n")) or " "
    return f"{ELLIPSIS}\n" if last.chunk_text.endswith("\n") else f"\n{ELLIPSIS}\n"
