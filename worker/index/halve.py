"""Splits chunks that are longer than the model accepts in two, within their file.

The halves contain every character of the chunk, so search still finds all its text. Live halves keep their ids from an
earlier run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import islice
from uuid import UUID

from schemas.content.document import Chunk, text_hash
from worker.index.file_states import PreparedFile
from worker.index.prepare import chunk_id
from worker.index.reuse_chunks import match_unused
from worker.index.run import IndexRun
from worker.state.index.chunks import PlacedChunk

#: The part of a chunk around its middle within which a line or a word may end the first half.
_WINDOW = 4


#: Chunks of this many tokens are not split further. Every model accepts more, so the provider must mean something else.
FEWEST_TOKENS = 8


def is_cuttable(placed: PlacedChunk) -> bool:
    """Return whether a chunk is long enough to be split."""
    return placed.chunk.tokens > FEWEST_TOKENS and len(placed.chunk.text) > 1


def halve_chunks(run: IndexRun, file: PreparedFile, too_long: Collection[UUID]) -> tuple[PreparedFile, set[str]]:
    """Split the chunks with these ids. Returns the file with the new chunks, and the hashes of the new texts."""
    parts = {placed.id: _parts(run, placed) for placed in file.chunks if placed.id in too_long}
    named = [_named(run, file, part) for of_chunk in parts.values() for part in of_chunk]
    matched, live = match_unused(run, file, named)
    remaining = iter(matched)
    chunks = [
        part
        for placed in file.chunks
        for part in (islice(remaining, len(parts[placed.id])) if placed.id in parts else [placed])
    ]
    numbered = [replace(placed, index=number) for number, placed in enumerate(chunks)]
    return replace(file, chunks=numbered, live=file.live | live), {each.content_hash for each in matched}


def _named(run: IndexRun, file: PreparedFile, part: PlacedChunk) -> PlacedChunk:
    """Return the part with an id that is unique in its file, because no two parts share a place."""
    stored = [file.claim.path, file.claim.id_path, file.facts.type, part.language, file.embedded]
    start = part.chunk.start_char
    return replace(part, id=chunk_id(file.claim, part.chunk, part.content_hash, start, [run.epoch, stored]))


def _parts(run: IndexRun, placed: PlacedChunk) -> list[PlacedChunk]:
    """Return the halves of a chunk, or the chunk alone if what is embedded in front of it is longer than its text."""
    chunk = placed.chunk
    if len(chunk.stem) + len(chunk.context) >= len(chunk.text):
        return [_placed(run, placed, chunk._replace(stem="", context=""), placed.lead, placed.trail)]
    text = chunk.text
    middle = _middle(text)
    # as in all chunks, the halves begin and end with a word; a chunk is never white space alone
    first = text[:middle].rstrip()
    after = len(text) - len(text[middle:].lstrip())
    one = chunk._replace(
        text=first, end_char=chunk.start_char + len(first), end_line=chunk.start_line + first.count("\n")
    )
    other = chunk._replace(
        text=text[after:],
        start_char=chunk.start_char + after,
        start_line=chunk.start_line + text[:after].count("\n"),
    )
    between = text[len(first) : after]
    return [_placed(run, placed, one, placed.lead, ""), _placed(run, placed, other, between, placed.trail)]


def _middle(text: str) -> int:
    """Return the split position: after the last line end or space shortly before the middle, else the middle."""
    middle = len(text) // 2
    begin = middle - len(text) // _WINDOW
    for end in ("\n", " "):
        found = text.rfind(end, begin, middle)
        if found > 0:
            return found + 1
    return middle


def _placed(run: IndexRun, placed: PlacedChunk, chunk: Chunk, lead: str, trail: str) -> PlacedChunk:
    chunk = chunk._replace(tokens=max(1, len(run.tokenizer.starts(chunk.embedded_text))))
    return replace(placed, chunk=chunk, content_hash=text_hash(chunk.embedded_text), lead=lead, trail=trail)
