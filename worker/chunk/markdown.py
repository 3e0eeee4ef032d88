"""Markdown is cut at its headings; the headings above a section are its context. Tables and fences stay whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from schemas.document import Document
from worker.chunk import lines
from worker.chunk.measure import Measure, Piece, Span
from worker.parse.markdown import Heading, blocks, headings
from worker.tokens import Offsets

#: Sections of a text; one with more is no document that anybody wrote, and is cut as if it had none.
_MOST_SECTIONS = 100_000

Path = tuple[Heading, ...]


def cut(measure: Measure, document: Document) -> Iterator[Piece]:
    """One piece for each section with a body, several for one that is too long, with the nearest heading as title."""
    sections = list(islice(_sections(measure.text), _MOST_SECTIONS + 1))
    if len(sections) > _MOST_SECTIONS:
        yield from (Piece(*span, title=document.title) for span in lines.cut(measure, 0, len(measure.text)))
        return
    starts, ends = (np.array([section[i] for section in sections], dtype=np.int64) for i in (0, 1))
    short = measure.surely_fit(starts, ends).tolist()
    fits = [sure or measure.fits(*section[:2]) for sure, section in zip(short, sections, strict=True)]
    spans = [section[:2] for section, fit in zip(sections, fits, strict=True) if fit]
    long = [section[:2] for section, fit in zip(sections, fits, strict=True) if not fit]
    if long:
        spans += lines.cut_all(measure, long, _whole(measure, long))
    untitled = document.title if len(sections) == 1 else None
    # overlaps stay within their section, so that a span's start tells which it is of
    numbers = starts.searchsorted([start for start, _ in spans], side="right") - 1
    for (first, last), number in zip(spans, numbers.tolist(), strict=True):
        path = sections[number][2]
        above = tuple(heading.title for heading in path if heading.start < first)
        yield Piece(first, last, above, title=path[-1].title if path else untitled)


def _whole(measure: Measure, sections: list[Span]) -> Offsets:
    """The blocks of the sections, two numbers each, that are short enough to stay whole."""
    sides = (side for start, end in sections for block in blocks(measure.text, start, end) for side in block)
    found = np.fromiter(sides, dtype=np.int64).reshape(-1, 2)
    return found[measure.surely_fit(*found.T)]


def _sections(text: str) -> Iterator[tuple[int, int, Path]]:
    """Start, end and headings, outermost first, of each section; a heading without a body begins the next one's."""
    start, body = 0, 0
    path: Path = ()
    for heading in headings(text):
        if text[body : heading.start].strip():
            yield start, heading.start, path
            start = heading.start
        path, body = _below(path, heading), heading.end
    yield start, len(text), path


def _below(path: Path, heading: Heading) -> Path:
    return (*(above for above in path if above.level < heading.level), heading)
