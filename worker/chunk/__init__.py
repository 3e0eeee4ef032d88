"""A document in, chunks out. Cuts depend only on the text around them, so an edit costs the chunks around it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from schemas.document import Chunk, Document
from schemas.errors import NotFound
from schemas.source import ChunkSettings
from worker.chunk import json, lines, markdown
from worker.chunk.context import contexts
from worker.chunk.measure import Measure, Piece, measure, trim
from worker.tokens import Offsets, Tokenizer, char_offsets


def chunk(
    document: Document, settings: ChunkSettings, tokenizer: Tokenizer, max_tokens: int, pointer: str = ""
) -> list[Chunk]:
    """The chunks of a document, ordered by `start_char`; none holds white space only.

    No text is longer than `settings.size` in its unit, no context and text together longer than `max_tokens`, the
    model's limit; only a text below `settings.threshold` stays whole as long as the model takes it.
    `pointer` (RFC 6901) narrows a JSON document to one value; raises `NotFound` if no value is there.
    """
    if pointer and document.type != "json":
        raise NotFound(f'"{pointer}" points into JSON, and this document is {document.type}; leave out json_pointer.')
    has_context = document.type in ("json", "markdown")
    starts = tokenizer.starts(document.text)
    limits = measure(document.text, starts, settings, tokenizer, max_tokens, has_context=has_context)
    whole = _stays_whole(limits, settings, document, pointer)
    return _chunks(limits, _pieces(document, limits, pointer, whole=whole))


def _pieces(document: Document, limits: Measure, pointer: str, *, whole: bool) -> Iterable[Piece]:
    if document.type == "json":
        return json.cut(limits, pointer, whole=whole)
    if whole:
        return [Piece(0, len(document.text), title=document.title)]
    if document.type == "markdown":
        return markdown.cut(limits)
    return (Piece(start, end) for start, end in lines.cut(limits, 0, len(document.text)))


def _stays_whole(limits: Measure, settings: ChunkSettings, document: Document, pointer: str) -> bool:
    """Whether the text, or the value that `pointer` narrows it to, is below the threshold and short for the model."""
    if not settings.threshold:
        return False
    start, end = json.span(document.text, pointer) if pointer else trim(document.text, 0, len(document.text))
    tokens = limits.count(start, end)
    length = end - start if settings.unit == "characters" else tokens
    return length < settings.threshold and tokens <= limits.room - limits.slack


def _chunks(limits: Measure, pieces: Iterable[Piece]) -> list[Chunk]:
    placed = [(*trim(limits.text, piece.start, piece.end), piece) for piece in pieces]
    placed = sorted((p for p in placed if p[0] < p[1]), key=lambda p: p[:2])
    starts = np.array([start for start, _, _ in placed], dtype=np.int64)
    ends = np.array([end for _, end, _ in placed], dtype=np.int64)
    breaks = _line_breaks(limits.text)
    first_lines = (breaks.searchsorted(starts) + 1).tolist()
    last_lines = (breaks.searchsorted(ends) + 1).tolist()
    tokens = np.maximum(1, limits.tokens(ends) - limits.tokens(starts)).tolist()
    above = contexts(limits, (piece.above for _, _, piece in placed))
    return [
        Chunk(
            text=limits.text[start:end],
            start_char=start,
            end_char=end,
            start_line=first_line,
            end_line=last_line,
            tokens=counted + above[piece.above][1],
            context=above[piece.above][0],
            json_pointer=piece.pointer,
            title=piece.title,
            node_type=piece.node_type,
            scope="/".join(piece.above) or None if piece.pointer is not None else None,
        )
        for (start, end, piece), first_line, last_line, counted in zip(
            placed, first_lines, last_lines, tokens, strict=True
        )
    ]


def _line_breaks(text: str) -> Offsets:
    """Character offsets of the newlines."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    breaks = np.flatnonzero(raw == ord("\n"))
    return breaks if len(raw) == len(text) else char_offsets(raw, breaks)
