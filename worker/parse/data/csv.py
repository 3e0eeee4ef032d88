"""Reads delimited tables, unchanged. Their first record, shortened, is the context of every chunk."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits

#: Characters searched for the header.
_HEADER_SEARCH_CHARS = 65_536
#: Maximum characters of a header, and of a name in it.
_MAX_HEADER_CHARS = 4096
_MAX_NAME_CHARS = 300

#: Number of lines that the delimiter is detected from.
_SAMPLE_LINES = 20
_DELIMITERS = ",\t;|"
#: A delimiter declaration that spreadsheet programs write above a table.
_DECLARATION = re.compile(r"sep=(?P<delimiter>[^\w\s]|\t)\r?\n", re.IGNORECASE)
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_NUMBER = re.compile(r"[-+]?[\d.,]*\d%?")
#: A quoted field; an unclosed quote does not count.
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"(?!")')


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of a table. Rows of uneven length are accepted. Raises as `encodings.decode`."""
    text = decode(data)
    return Document(text, "csv", markup="table", header=_header(text[:_HEADER_SEARCH_CHARS]))


def _header(start: str) -> str:
    """Return the column names; "" if the first record is data, or if half of it is empty.

    Columns without a name are common: row numbers in front, and empty columns at the end. Names may be years.
    """
    declaration = _DECLARATION.match(start)
    delimiter = declaration["delimiter"] if declaration else _delimiter(start)
    cells = _first_record(start[declaration.end() if declaration else 0 :], delimiter)
    names = [cell for cell in cells if cell]
    years = [name for name in names if _YEAR.fullmatch(name)]
    words = [name for name in names if name not in years] if _are_years(years) else names
    if 2 * len(names) < len(cells) or is_data(words, _MAX_NAME_CHARS):
        return ""
    return ", ".join(names)[:_MAX_HEADER_CHARS].removeprefix("#").lstrip()


def _first_record(start: str, delimiter: str) -> list[str]:
    """Return the cells of the first record that is not a title or a remark above the table."""
    records = []
    with suppress(csv.Error):
        for record in islice(csv.reader(start.splitlines(keepends=True), delimiter=delimiter), _SAMPLE_LINES):
            cells = [" ".join(cell.split()) for cell in record]
            while cells and not cells[-1]:
                cells.pop()
            records += [cells] if cells else []
    widths = [len(cells) for cells in records if not cells[0].startswith("#")]
    usual = max(set(widths), key=widths.count, default=0)
    return next((cells for cells in records if not _is_above(cells, usual)), [])


def _is_above(cells: list[str], usual: int) -> bool:
    is_remark = cells[0].startswith("#") and len(cells) != usual
    return is_remark or (usual > 1 and sum(map(bool, cells)) == 1)


def _are_years(cells: list[str]) -> bool:
    return len(cells) > 1 and cells == sorted(set(cells))


def is_data(cells: Sequence[str], longest: int) -> bool:
    """Return whether any column's first cell is a number, or longer than a name can be."""
    return any(_NUMBER.fullmatch(cell) or len(cell) > longest for cell in cells)


def _delimiter(start: str) -> str:
    """Return the delimiter that divides most of the first lines most evenly. Quoted text does not count."""
    lines = [line for line in _QUOTED.sub("", start).splitlines() if line.strip() and not line.startswith("#")]
    lines = lines[:_SAMPLE_LINES]
    counts = {delimiter: [line.count(delimiter) for line in lines] for delimiter in _DELIMITERS}

    def quality(delimiter: str) -> tuple[int, int]:
        column = counts[delimiter]
        usual = max(set(column), key=column.count, default=0)
        return (column.count(usual) if usual else 0, usual)

    return max(_DELIMITERS, key=quality)
