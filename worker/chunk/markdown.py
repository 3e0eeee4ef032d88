"""Markdown is cut at its headings; the headings above a section are its context. Tables and fences stay whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from schemas.document import Document
from worker.chunk import lines
from worker.chunk.measure import Measure, Piece, Span
from worker.parse.markdown import Heading, blocks, headings
from worker.tokens import Offsets

#: Sections of a text; one with more is no document that anybody wrote, and is cut as if it had none.
_MOST_SECTIONS = 100_000


class _Section(NamedTuple):
    """Its characters, and the headings above and at its start, outermost first."""

    start: int
    end: int
    path: tuple[Heading, ...]

    def piece(self, start: int, end: int, untitled: str | None) -> Piece:
        """The piece of a span within it, with the nearest heading as title."""
        above = tuple([heading.title for heading in self.path if heading.start < start])
        return Piece(start, end, above, title=self.path[-1].title if self.path else untitled)


def cut(measure: Measure, document: Document) -> Iterator[Piece]:
    """One piece for each section with a body, several for one that is too long."""
    sections = list(islice(_sections(measure.text), _MOST_SECTIONS + 1))
    if len(sections) > _MOST_SECTIONS:
        yield from (Piece(*span, title=document.title) for span in lines.cut(measure, 0, len(measure.text)))
        return
    untitled = document.title if len(sections) == 1 else None
    starts, ends, _ = zip(*sections, strict=True)
    sure = measure.surely_fit(np.array(starts), np.array(ends)).tolist()
    long = []
    for section, fits in zip(sections, sure, strict=True):
        if fits or measure.fits(section.start, section.end):
            yield section.piece(section.start, section.end, untitled)
        else:
            long.append(section)
    yield from _parts(measure, long, untitled)


def _parts(measure: Measure, long: list[_Section], untitled: str | None) -> Iterator[Piece]:
    """Pieces of sections that are too long."""
    if not long:
        return
    spans = [(section.start, section.end) for section in long]
    sections = iter(long)
    section = next(sections)
    for start, end in lines.cut_all(measure, spans, _whole(measure, spans)):
        # overlaps stay within their section
        while start >= section.end:
            section = next(sections)
        yield section.piece(start, end, untitled)


def _whole(measure: Measure, sections: list[Span]) -> Offsets:
    """The blocks of the sections, two numbers each, that are short enough to stay whole."""
    sides = (side for start, end in sections for block in blocks(measure.text, start, end) for side in block)
    found = np.fromiter(sides, dtype=np.int64).reshape(-1, 2)
    return found[measure.surely_fit(*found.T)]


def _sections(text: str) -> Iterator[_Section]:
    """The sections in order; a heading without a body begins the next one's."""
    start, body = 0, 0
    path: tuple[Heading, ...] = ()
    for heading in headings(text):
        if text[body : heading.start].strip():
            yield _Section(start, heading.start, path)
            start = heading.start
        kept = len(path)
        while kept and path[kept - 1].level >= heading.level:
            kept -= 1
        path, body = (*path[:kept], heading), heading.end
    yield _Section(start, len(text), path)
