"""Tables as text are kept as they stand; their first record, made short, stands in front of every chunk."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import islice

from schemas.document import Document
from worker.parse.limits import Limits
from worker.parse.text import decode

#: Characters that the header is looked for in, and that a header has.
_LOOKED_AT = 65_536
_LONGEST_HEADER = 4096
_LONGEST_NAME = 300

#: Lines by which the delimiter is told.
_LINES = 20
_DELIMITERS = ",\t;|"
_NUMBER = re.compile(r"[-+]?[\d.,]*\d%?")
#: A quoted field; one that is never closed is none.
_QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')


def read(data: bytes, _limits: Limits) -> Document:
    """The document of a table; rows that are shorter or longer than others are no matter. Raises as `text.decode`."""
    text = decode(data)
    return Document(text, "csv", markup="table", header=_header(text[:_LOOKED_AT]))


def _header(start: str) -> str:
    """The names of the columns, "" if the first record is one of data, or half of it is nothing.

    A column without a name is usual: of row numbers, in front, and empty ones at the end.
    """
    delimiter = _delimiter(start)
    try:
        cells = next(csv.reader(start.splitlines(keepends=True), delimiter=delimiter), [])
    except csv.Error:
        return ""
    cells = [" ".join(cell.split()) for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    names = [cell for cell in cells if cell]
    if 2 * len(names) < len(cells) or is_data(names, _LONGEST_NAME):
        return ""
    return ", ".join(names)[:_LONGEST_HEADER]


def is_data(cells: Sequence[str], longest: int) -> bool:
    """Whether any of the first cells of columns is a number, or longer than a name is."""
    return any(_NUMBER.fullmatch(cell) or len(cell) > longest for cell in cells)


def _delimiter(start: str) -> str:
    """What parts most lines most evenly, by the first lines; quoted text does not count."""
    lines = list(islice((line for line in _QUOTED.sub("", start).splitlines() if line.strip()), _LINES))
    counts = {delimiter: [line.count(delimiter) for line in lines] for delimiter in _DELIMITERS}

    def quality(delimiter: str) -> tuple[int, int]:
        column = counts[delimiter]
        usual = max(set(column), key=column.count, default=0)
        return (column.count(usual) if usual else 0, usual)

    return max(_DELIMITERS, key=quality)
