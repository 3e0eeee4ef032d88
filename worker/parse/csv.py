"""Tables as text are kept as they stand; their first record, made short, stands in front of every chunk."""

from __future__ import annotations

import csv
import re
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
    """The names of the columns, "" if the first record is none of names: nothing first, or a number, or a text."""
    delimiter = _delimiter(start)
    try:
        names = next(csv.reader(start.splitlines(keepends=True), delimiter=delimiter), [])
    except csv.Error:
        return ""
    names = [" ".join(name.split()) for name in names]
    if not all(names[:1]) or any(_NUMBER.fullmatch(name) or len(name) > _LONGEST_NAME for name in names):
        return ""
    return ", ".join(names)[:_LONGEST_HEADER]


def _delimiter(start: str) -> str:
    """What parts most lines most evenly, by the first lines; quoted text does not count."""
    lines = list(islice((line for line in _QUOTED.sub("", start).splitlines() if line.strip()), _LINES))
    counts = {delimiter: [line.count(delimiter) for line in lines] for delimiter in _DELIMITERS}

    def quality(delimiter: str) -> tuple[int, int]:
        column = counts[delimiter]
        usual = max(set(column), key=column.count, default=0)
        return (column.count(usual) if usual else 0, usual)

    return max(_DELIMITERS, key=quality)
