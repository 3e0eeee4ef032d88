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
from schemas.reason import Reason
from worker.parse.limits import Limits, too_large
from worker.parse.office import xls_formats
from worker.parse.office.mended import noted
from worker.parse.office.number_formats import as_shown
from worker.parse.office.stated import core, summary
from worker.parse.office.xls_formats import Formats, binary_records
from worker.parse.office.xlsx import shown
from worker.parse.office.zip_container import open_container
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
    """Return the sheets as Markdown. Raises `FileError`: `encrypted`, and as `zip_container.open_container` does."""
    formats = _check_sheets(data, limits)
    try:
        book = python_calamine.load_workbook(BytesIO(data))
        limits.check_pages(len(book.sheet_names), "sheets")
        lost = list[str]()
        text = joined(_sheets(book, formats, limits, lost), limits)
    except python_calamine.PasswordError:
        raise FileError(Reason.ENCRYPTED) from None
    except BaseException as failure:  # a panic of the library's Rust code is no `Exception`
        if isinstance(failure, Exception):
            raise
        raise ValueError(str(failure)) from failure
    properties = summary(data) if data.startswith(_OLE) else core(data)
    document = Document(text, "xls", title=properties.title or None, markup="markdown", properties=properties)
    return noted(document, lost)


def _check_sheets(data: bytes, limits: Limits) -> list[Formats] | dict[str, Formats]:
    """Return the number formats of cells by sheet, by number or by name.

    Refuses sheets whose cells span more than fits into memory: the library takes it for the empty ones as well.
    """
    if not data.startswith(_OLE):
        with open_container(data, limits) as archive:
            sheets = [archive.read(name) for name in archive.namelist() if _SHEET.fullmatch(name)]
            _check_area(chain.from_iterable(map(_binary_cells, sheets)), limits)
            return xls_formats.binary(archive)
    with olefile.OleFileIO(BytesIO(data)) as file:
        _check_chains(file)
        streams = [file.openstream(path).read() for path in file.listdir() if path[-1].lower() == "workbook"]
    _check_area(chain.from_iterable(map(_cells, streams)), limits)
    return xls_formats.old(streams[0]) if streams else []


def _check_area(cells: Iterable[tuple[int, int]], limits: Limits) -> None:
    rows, columns = _spans(cells)
    if rows > _MAX_ROWS or columns > _MAX_COLUMNS:
        raise ValueError(f"a cell in row {rows:,} and column {columns:,}")
    if rows * columns * _CELL_BYTES > limits.memory_bytes:
        raise too_large(f"A sheet spans {rows:,} by {columns:,} cells, more than fits into PARSE_MEMORY_MB")


def _check_chains(file: olefile.OleFileIO) -> None:
    """Refuse a file whose sectors form a loop: the library follows them until memory is full."""
    file.loadminifat()
    for table in (file.fat, file.minifat):
        if _has_loop(table or ()):
            raise ValueError("a chain of sectors has no end")


def _has_loop(successors: Sequence[int]) -> bool:
    """Return whether the entries of a table contain a loop. Ends of chains are not entries."""
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
    """Return the most rows and columns up to the last cell of any sheet."""
    rows = columns = 0
    for row, column in cells:
        rows, columns = max(rows, row + 1), max(columns, column + 1)
    return rows, columns


def _cells(stream: bytes) -> Iterator[tuple[int, int]]:
    """Yield cell places in a stream of Excel 97: records of a kind, a length, and data that begins with the place."""
    at = 0
    while at + 8 <= len(stream):
        kind, length, row, column = struct.unpack_from("<HHHH", stream, at)
        if kind in _CELL_RECORDS:
            yield row, column
        if kind in _ROW_RECORDS and length > _LAST_COLUMN_BYTES and at + 4 + length <= len(stream):
            yield row, struct.unpack_from("<H", stream, at + 2 + length)[0]
        at += 4 + length


def _binary_cells(part: bytes) -> Iterator[tuple[int, int]]:
    """Yield cell places in a binary sheet. Kinds of records have one or two bytes, their lengths up to four."""
    row = 0
    for kind, data in binary_records(part):
        if kind <= _LAST_CELL and len(data) >= 4:  # noqa: PLR2004 - the place
            (number,) = struct.unpack_from("<I", data)
            row = number if kind == 0 else row
            yield row, number if kind else 0


def _sheets(
    book: python_calamine.CalamineWorkbook,
    formats: list[Formats] | dict[str, Formats],
    limits: Limits,
    lost: list[str],
) -> Iterator[str]:
    """Return the readable sheets, and add the names of others to `lost`; if there are none, raises the reason."""
    has_text, failure = False, None
    by_name = formats if isinstance(formats, dict) else dict(zip(book.sheet_names, formats, strict=False))
    for name in book.sheet_names:
        try:
            content = list(tables(_rows(book.get_sheet_by_name(name), by_name.get(name, {})), limits))
        except (python_calamine.CalamineError, OSError) as error:
            failure = failure or error
            lost.append(f"the sheet {name}")
            continue
        if content:
            has_text = True
            yield heading(1, name)
            yield from content
    if failure and not has_text:
        raise failure


def _rows(sheet: python_calamine.CalamineSheet, formats: Formats) -> Iterator[list[str]]:
    if not formats:
        yield from ([shown(value) for value in row] for row in sheet.iter_rows())
        return
    # its rows count from the top, and its columns from the first that is used
    first = sheet.start[1] if sheet.start else 0
    for number, row in enumerate(sheet.iter_rows()):
        codes = (formats.get((number, column), "") for column in range(first, first + len(row)))
        yield [
            as_shown(shown(value), value, code) if code else shown(value)
            for value, code in zip(row, codes, strict=True)
        ]
