"""Cuts Markdown, and other formats with headings, at the headings; the headings above a section are its context.

Tables and fences stay whole if they fit. Parts of a longer table also have its column names as context.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from schemas.content.document import Document
from worker.chunk import lines
from worker.chunk.measure import ChunkSpan, Measure, Span, made_piece
from worker.formats.registry import BY_TYPE, import_function
from worker.parse.text.markdown import Heading, blocks, columns
from worker.tokens.byte_tables import Offsets

#: Maximum sections of a text. A document with more was not written by a person, and is cut as if it had no headings.
_MAX_SECTIONS = 100_000

#: Start and end of a section, and the headings above and at its start, outermost first.
_Section = tuple[int, int, tuple[Heading, ...]]


def cut(measure: Measure, document: Document) -> Iterator[ChunkSpan]:
    """Yield one piece per section with a body, or several if it is too long, titled by the nearest heading."""
    headings = import_function(BY_TYPE[document.type].headings)(measure.text)
    sections = list(islice(_sections(measure.text, headings), _MAX_SECTIONS + 1))
    if len(sections) > _MAX_SECTIONS:
        yield from (ChunkSpan(*span, title=document.title) for span in lines.cut(measure, 0, len(measure.text)))
        return
    untitled = document.title if len(sections) == 1 else document.properties.title or None
    starts, ends, _ = zip(*sections, strict=True)
    sure = measure.surely_fit(np.array(starts), np.array(ends)).tolist()
    long = []
    for section, fits in zip(sections, sure, strict=True):
        start, end, path = section
        if fits or measure.fits(start, end):
            yield _piece(start, end, path, untitled)
        else:
            long.append(section)
    if long:
        yield from _parts(measure, long, untitled)


def _piece(start: int, end: int, path: tuple[Heading, ...], untitled: str | None, header: str = "") -> ChunkSpan:
    is_below = path and path[0].start < start
    above = tuple([heading.title for heading in path if heading.start < start]) if is_below else ()
    title = path[-1].title if path else untitled
    return made_piece((start, end, (*above, header) if header else above, None, title, None, None, None))


def _parts(measure: Measure, long: list[_Section], untitled: str | None) -> Iterator[ChunkSpan]:
    """Yield pieces of too long sections, with the columns of the table they start in. Overlaps stay in a section."""
    spans = [(start, end) for start, end, _ in long]
    spans_of_blocks = _blocks(measure.text, spans)
    number = 0
    for start, end in lines.cut_all(measure, spans, spans_of_blocks[measure.surely_fit(*spans_of_blocks.T)]):
        while start >= long[number][1]:
            number += 1
        yield _piece(start, end, long[number][2], untitled, _columns(measure.text, spans_of_blocks, start))


def _blocks(text: str, sections: list[Span]) -> Offsets:
    """Return the blocks of the sections, as one (start, end) row each."""
    sides = (side for start, end in sections for block in blocks(text, start, end) for side in block)
    return np.fromiter(sides, dtype=np.int64).reshape(-1, 2)


def _columns(text: str, spans_of_blocks: Offsets, offset: int) -> str:
    """Return the columns of the table that contains the offset `offset`; empty if the table starts there."""
    block = int(spans_of_blocks[:, 0].searchsorted(offset)) - 1
    return columns(text, *spans_of_blocks[block].tolist()) if block >= 0 and offset < spans_of_blocks[block, 1] else ""


def _sections(text: str, headings: Iterator[Heading]) -> Iterator[_Section]:
    """Yield the sections in order. A heading without a body becomes part of the next section."""
    start, body = 0, 0
    path: tuple[Heading, ...] = ()
    for heading in headings:
        begin, end, level, _ = heading
        between = text[body:begin]
        if between and not between.isspace():
            yield start, begin, path
            start = begin
        depth = len(path)
        while depth and path[depth - 1].level >= level:
            depth -= 1
        path, body = (*path[:depth], heading), end
    yield start, len(text), path
