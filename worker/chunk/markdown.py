"""Markdown is cut at its headings; the headings above a section are its context."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from worker.chunk import lines
from worker.chunk.measure import Measure, Piece
from worker.parse.markdown import Heading, headings

Path = tuple[Heading, ...]


def cut(measure: Measure) -> Iterator[Piece]:
    """One piece for each section with a body, several for one that is too long."""
    sections = list(_sections(measure.text))
    starts, ends = (np.array([section[i] for section in sections], dtype=np.int64) for i in (0, 1))
    for (start, end, path), fits in zip(sections, measure.surely_fit(starts, ends).tolist(), strict=True):
        for first, last in [(start, end)] if fits else lines.cut(measure, start, end):
            above = tuple(heading.title for heading in path if heading.start < first)
            yield Piece(first, last, above, title=path[-1].title if path else None)


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
