"""Reads spreadsheets of Excel 97 and binary ones (.xlsb) with calamine: each sheet as a heading and a table."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain

import olefile
import python_calamine

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse.limits import Limits, too_large
from worker.parse.office.stated import core, summary
from worker.parse.office.xlsx import shown
from worker.parse.office.zip_container import opened
from worker.parse.text.markdown_blocks import heading, joined, tables

_OLE = b"\xd0\xcf\x11\xe0"
_SHEET = re.compile(r"xl/\w*sheets/[^/]+\.bin", re.IGNORECASE)
#: Kinds of records that hold a cell, and of those that hold several of a row, whose last two bytes are the last column.
_CELL_RECORDS = {0x06, 0x7E, 0xBD, 0xBE, 0xD6, 0xFD, 0x201, 0x203, 0x204, 0x205, 0x27E, 0x406}
_ROW_RECORDS = {0xBD, 0xBE}
_LAST_COLUMN_BYTES = 6
#: Kinds of records of a binary sheet: 0 is the head of a row, and those up to this one hold a cell.
_LAST_CELL = 11
#: Most rows and columns of a sheet of Excel. Cells beyond them are damage.
_MAX_ROWS, _MAX_COLUMNS = 1 << 20, 1 << 14
#: Memory that the library takes for a cell, in bytes, and as much again for a copy.
_CELL_BYTES = 50


def read(data: bytes, limits: Limits) -> Document:
    """The sheets as Markdown. Raises `FileError`: `encrypted`, and as `zip_container.opened` does."""
    _check_area(data, limits)
    try:
        book = python_calamine.load_workbook(BytesIO(data))
        limits.check_pages(len(book.sheet_names), "sheets")
        text = joined(_sheets(book, limits), limits)
    except python_calamine.PasswordError:
        raise FileError(Reason.ENCRYPTED) from None
    except BaseException as failure:  # a panic of the library's Rust code is no `Exception`
        if isinstance(failure, Exception):
            raise
        raise ValueError(str(failure)) from failure
    properties = summary(data) if data.startswith(_OLE) else core(data)
    return Document(text, "xls", title=properties.title or None, markup="markdown", properties=properties)


def _check_area(data: bytes, limits: Limits) -> None:
    """Refuse sheets whose cells span more than fits into memory: the library takes it for the empty ones as well."""
    if not data.startswith(_OLE):
        with opened(data, limits) as archive:
            sheets = [archive.read(name) for name in archive.namelist() if _SHEET.fullmatch(name)]
        rows, columns = _spans(chain.from_iterable(map(_binary_cells, sheets)))
    else:
        with olefile.OleFileIO(BytesIO(data)) as file:
            _check_chains(file)
            streams = [file.openstream(path).read() for path in file.listdir() if path[-1].lower() == "workbook"]
        rows, columns = _spans(chain.from_iterable(map(_cells, streams)))
    if rows > _MAX_ROWS or columns > _MAX_COLUMNS:
        raise ValueError(f"a cell in row {rows:,} and column {columns:,}")
    if rows * columns * _CELL_BYTES > limits.memory_bytes:
        raise too_large(f"A sheet spans {rows:,} by {columns:,} cells, more than fits into PARSE_MEMORY_MB")


def _check_chains(file: olefile.OleFileIO) -> None:
    """Refuse a file whose sectors lead back to themselves: the library follows them until memory is full."""
    file.loadminifat()
    for table in (file.fat, file.minifat):
        if _has_loop(table or ()):
            raise ValueError("a chain of sectors has no end")


def _has_loop(successors: Sequence[int]) -> bool:
    """Whether following the entries of a table from some entry comes back to it. Ends of chains are no entries."""
    seen_from: dict[int, int] = {}
    for start in range(len(successors)):
        at = start
        while at < len(successors) and at not in seen_from:
            seen_from[at] = start
            at = successors[at]
        if at < len(successors) and seen_from[at] == start:
            return True
    return False


def _spans(cells: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The most rows and columns up to the last cell of any sheet."""
    rows = columns = 0
    for row, column in cells:
        rows, columns = max(rows, row + 1), max(columns, column + 1)
    return rows, columns


def _cells(stream: bytes) -> Iterator[tuple[int, int]]:
    """Places of cells in a stream of Excel 97: records of a kind, a length, and data that begins with the place."""
    at = 0
    while at + 8 <= len(stream):
        kind, length, row, column = struct.unpack_from("<HHHH", stream, at)
        if kind in _CELL_RECORDS:
            yield row, column
        if kind in _ROW_RECORDS and length > _LAST_COLUMN_BYTES and at + 4 + length <= len(stream):
            yield row, struct.unpack_from("<H", stream, at + 2 + length)[0]
        at += 4 + length


def _binary_cells(part: bytes) -> Iterator[tuple[int, int]]:
    """Places of cells in a binary sheet. Kinds of records have one or two bytes, their lengths up to four."""
    at, row = 0, 0
    while at + 2 < len(part):
        kind, at = _number(part, at, 2)
        length, at = _number(part, at, 4)
        if kind <= _LAST_CELL and at + 4 <= len(part):
            (number,) = struct.unpack_from("<I", part, at)
            row = number if kind == 0 else row
            yield row, number if kind else 0
        at += length


def _number(part: bytes, at: int, most: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place behind it."""
    value = 0
    for step in range(most):
        byte = part[at] if at < len(part) else 0
        value |= (byte & 0x7F) << 7 * step
        at += 1
        if byte < 0x80:  # noqa: PLR2004 - the sign that another byte follows
            break
    return value, at


def _sheets(book: python_calamine.CalamineWorkbook, limits: Limits) -> Iterator[str]:
    for name in book.sheet_names:
        sheet = book.get_sheet_by_name(name)
        content = list(tables(([shown(value) for value in row] for row in sheet.iter_rows()), limits))
        if content:
            yield heading(1, name)
            yield from content
