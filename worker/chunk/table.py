"""Cuts a table between its records. Every piece but the first has the table's header as context."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from schemas.content.document import Document
from worker.chunk import lines
from worker.chunk.measure import ChunkSpan, Measure
from worker.parse.text.runs import end_of_run
from worker.tokens.byte_tables import Offsets

#: The start and the end of a quoted field that spans several lines. It starts after a delimiter and ends before one;
#: quotes inside are doubled. Any other quote is stray, and affects only the lines around it.
_FIELD_START = re.compile(r'"(?<![^,;|\t\n]")[^"\n]*')
_FIELD_END = re.compile(r'"(?=[,;|\t\r\n]|\Z)')
#: The rest of the field's first line.
_FIRST_LINE_RUN = re.compile(r'(?:""[^"\n]*){1,1000}')
#: The field's lines below the first.
_OTHER_LINES_RUN = re.compile(r'(?:\n[^"]*|""[^"]*){1,1000}')


def cut(measure: Measure, document: Document) -> Iterator[ChunkSpan]:
    """Yield pieces of whole records, wherever records fit."""
    above = (document.header,) if document.header else ()
    for start, end in lines.cut(measure, 0, len(document.text), _records(document.text)):
        yield ChunkSpan(start, end, above if start else (), title=document.title)


def _records(text: str) -> Offsets:
    """Return spans, as (start, end) rows, from the line where a multi-line field starts to the end of that field."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    quotes = np.flatnonzero(raw == ord('"'))
    # if every newline has an even number of quotes above it, no field spans lines
    if not (quotes.searchsorted(np.flatnonzero(raw == ord("\n"))) % 2).any():
        return np.empty((0, 2), dtype=np.int64)
    sides = (side for start, end in _quoted(text) for side in (text.rfind("\n", 0, start) + 1, end))
    return np.fromiter(sides, dtype=np.int64).reshape(-1, 2)


def _quoted(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each quoted field that spans several lines."""
    offset = 0
    while opening := _FIELD_START.search(text, offset):
        offset = end_of_run(_FIRST_LINE_RUN, text, opening.end())
        closing = (
            _FIELD_END.match(text, end_of_run(_OTHER_LINES_RUN, text, offset))
            if text.startswith("\n", offset)
            else None
        )
        offset = closing.end() if closing else opening.start() + 1
        if closing:
            yield opening.start(), offset
