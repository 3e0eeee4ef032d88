"""Markdown is cut at its headings; the headings above a section are its context. Tables and fences stay whole.

So are other texts that have headings, each by its own.

The parts of a table that is too long for it have the names of its columns as context, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from schemas.document import Document
from worker.chunk import lines
from worker.chunk.measure import Measure, Piece, Span, made_piece
from worker.parse.text import asciidoc, org, rst, tex
from worker.parse.text.markdown import Heading, blocks, columns, headings
from worker.tokens.tokenizers import Offsets

#: Sections of a text; one with more is no document that anybody wrote, and is cut as if it had none.
_MOST_SECTIONS = 100_000

#: How headings are told in what is not Markdown, by the document's type.
_HEADINGS = {"asciidoc": asciidoc.headings, "org": org.headings, "rst": rst.headings, "tex": tex.headings}

#: Start and end of a section, and the headings above and at its start, outermost first.
_Section = tuple[int, int, tuple[Heading, ...]]


def cut(measure: Measure, document: Document) -> Iterator[Piece]:
    """One piece for each section with a body, several for one that is too long, with the nearest heading as title."""
    found = _HEADINGS.get(document.type, headings)(measure.text)
    sections = list(islice(_sections(measure.text, found), _MOST_SECTIONS + 1))
    if len(sections) > _MOST_SECTIONS:
        yield from (Piece(*span, title=document.title) for span in lines.cut(measure, 0, len(measure.text)))
        return
    untitled = document.title if len(sections) == 1 else None
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


def _piece(start: int, end: int, path: tuple[Heading, ...], untitled: str | None, header: str = "") -> Piece:
    is_below = path and path[0].start < start
    above = tuple([heading.title for heading in path if heading.start < start]) if is_below else ()
    title = path[-1].title if path else untitled
    return made_piece((start, end, (*above, header) if header else above, None, title, None, None, None))


def _parts(measure: Measure, long: list[_Section], untitled: str | None) -> Iterator[Piece]:
    """Pieces of sections that are too long, with the columns of the table they begin in; overlaps stay within them."""
    spans = [(start, end) for start, end, _ in long]
    found = _blocks(measure.text, spans)
    number = 0
    for start, end in lines.cut_all(measure, spans, found[measure.surely_fit(*found.T)]):
        while start >= long[number][1]:
            number += 1
        yield _piece(start, end, long[number][2], untitled, _columns(measure.text, found, start))


def _blocks(text: str, sections: list[Span]) -> Offsets:
    """The blocks of the sections, two numbers each."""
    sides = (side for start, end in sections for block in blocks(text, start, end) for side in block)
    return np.fromiter(sides, dtype=np.int64).reshape(-1, 2)


def _columns(text: str, found: Offsets, at: int) -> str:
    """The columns of the table that a character is in, unless it begins there."""
    block = int(found[:, 0].searchsorted(at)) - 1
    return columns(text, *found[block].tolist()) if block >= 0 and at < found[block, 1] else ""


def _sections(text: str, found: Iterator[Heading]) -> Iterator[_Section]:
    """The sections in order; a heading without a body begins the next one's."""
    start, body = 0, 0
    path: tuple[Heading, ...] = ()
    for heading in found:
        if text[body : heading.start].strip():
            yield start, heading.start, path
            start = heading.start
        kept = len(path)
        while kept and path[kept - 1].level >= heading.level:
            kept -= 1
        path, body = (*path[:kept], heading), heading.end
    yield start, len(text), path
