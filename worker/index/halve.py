"""Cuts chunks that are longer than the model takes in two, within their file.

The halves have all characters of the chunk, so that search finds each of them as before. Their ids are those that they
had in an earlier run, if they are live.
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


#: Chunks of as many tokens are no longer cut: every model takes more, so that the provider must mean something else.
FEWEST_TOKENS = 8


def is_cuttable(placed: PlacedChunk) -> bool:
    """Whether a chunk is long enough to be made shorter."""
    return placed.chunk.tokens > FEWEST_TOKENS and len(placed.chunk.text) > 1


def halve_chunks(run: IndexRun, file: PreparedFile, too_long: Collection[UUID]) -> tuple[PreparedFile, set[str]]:
    """The file, whose chunks with these ids are cut, and the hashes of the new texts."""
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
    """A part with an id that no other chunk of the file has: no two of them are at the same place."""
    stored = [file.claim.path, file.claim.id_path, file.facts.type, part.language, file.embedded]
    start = part.chunk.start_char
    return replace(part, id=chunk_id(file.claim, part.chunk, part.content_hash, start, [run.epoch, stored]))


def _parts(run: IndexRun, placed: PlacedChunk) -> list[PlacedChunk]:
    """The halves of a chunk, or the chunk without its context if that is longer than its text."""
    chunk = placed.chunk
    if len(chunk.context) >= len(chunk.text):
        return [_placed(run, placed, chunk._replace(context=""), placed.lead, placed.trail)]
    text = chunk.text
    middle = _middle(text)
    # as all chunks, the halves begin and end with a word; a chunk holds more than white space
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
    """Where to cut: after the line, else after the word, that ends last before the middle, unless it is far away."""
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
