"""Finds the number formats of cells in workbooks of Excel 97 ([MS-XLS]) and in binary ones ([MS-XLSB]).

The library that reads their values does not show them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from zipfile import ZipFile

from openpyxl.styles.numbers import BUILTIN_FORMATS

from worker.parse.office.zip_container import related

#: Number formats by the place of their cells, in rows and columns from 0.
Formats = dict[tuple[int, int], str]

#: Kinds of records of Excel 97: the begin and the end of a sheet, its name and place, formats, and how cells look.
_BEGIN, _END, _SHEET, _FORMAT, _LOOK = 0x809, 0x0A, 0x85, 0x41E, 0xE0
#: Cells with one number or a formula, and several numbers of a row.
_NUMBERS = {0x203, 0x27E, 0x06, 0x206, 0x406}
_SEVERAL, _SEVERAL_BYTES = 0xBD, 6
#: Kinds of records of binary workbooks: a sheet's name and relation, a format, the looks of cells and one of them.
_BINARY_SHEET, _BINARY_FORMAT, _BINARY_LOOKS, _BINARY_LOOKS_END, _BINARY_LOOK = 156, 44, 617, 618, 47
#: The head of a row, and cells with a number, or a formula that gives one.
_BINARY_ROW, _BINARY_NUMBERS = 0, {2, 5, 9}
#: Formats that do not affect the displayed value.
_GENERAL, _TEXT = 0, 49


@dataclass(slots=True)
class _Looks:
    """The looks of cells, each by the number of its format, and the formats that a workbook defines."""

    formats: dict[int, str] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)

    def format_of(self, look: int) -> str | None:
        number = self.numbers[look] if look < len(self.numbers) else _GENERAL
        return None if number in (_GENERAL, _TEXT) else self.formats.get(number) or BUILTIN_FORMATS.get(number)


def old(stream: bytes) -> list[Formats]:
    """Return the formats of the sheets in a stream of Excel 97, in the order of the workbook."""
    looks, starts = _Looks(), list[int]()
    for kind, at, length in records(stream):
        if kind == _FORMAT and length > 5:  # noqa: PLR2004 - the head of a format
            looks.formats[_short(stream, at)] = _old_text(stream[at + 2 : at + length])
        elif kind == _LOOK and length >= 4:  # noqa: PLR2004 - font and format
            looks.numbers.append(_short(stream, at + 2))
        elif kind == _SHEET and length >= 4:  # noqa: PLR2004 - the sheet's place
            starts.append(struct.unpack_from("<I", stream, at)[0])
    found: dict[int, Formats] = {}
    sheet: Formats = {}
    for kind, at, length in records(stream):
        if kind == _BEGIN:
            sheet = found.setdefault(at - 4, {})
        for row, column, look in _old_cells(stream, kind, at, length):
            if code := looks.format_of(look):
                sheet[row, column] = code
    return [found.get(start, {}) for start in starts]


def records(stream: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, place and length of the records of Excel 97."""
    at = 0
    while at + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, at)
        if at + 4 + length > len(stream):
            return
        yield kind, at + 4, length
        at += 4 + length


def _old_cells(stream: bytes, kind: int, at: int, length: int) -> Iterator[tuple[int, int, int]]:
    if kind in _NUMBERS and length >= 6:  # noqa: PLR2004 - row, column and look
        yield struct.unpack_from("<HHH", stream, at)
    elif kind == _SEVERAL and length > _SEVERAL_BYTES:
        row, column = struct.unpack_from("<HH", stream, at)
        for number in range((length - _SEVERAL_BYTES) // 6):
            yield row, column + number, _short(stream, at + 4 + 6 * number)


def _short(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _old_text(data: bytes) -> str:
    """Return a text of one or two bytes for each character, behind its length and a flag."""
    count, is_wide = _short(data, 0), data[2] & 1
    return data[3 : 3 + count * (1 + is_wide)].decode("utf-16-le" if is_wide else "latin-1", "replace")


def binary(archive: ZipFile) -> dict[str, Formats]:
    """Return the formats of the sheets in a binary workbook, by their names."""
    names = set(archive.namelist())
    if not {"xl/workbook.bin", "xl/styles.bin"} <= names:
        return {}
    looks, is_look = _Looks(), False
    for kind, part in binary_records(archive.read("xl/styles.bin")):
        is_look = kind == _BINARY_LOOKS or (is_look and kind != _BINARY_LOOKS_END)
        if kind == _BINARY_FORMAT:
            looks.formats[_short(part, 0)] = _wide(part, 2)[0]
        elif kind == _BINARY_LOOK and is_look:
            looks.numbers.append(_short(part, 2))
    parts = {id_: name for id_, _, name in related(archive, "xl/workbook.bin")}
    found = dict[str, Formats]()
    for kind, part in binary_records(archive.read("xl/workbook.bin")):
        if kind == _BINARY_SHEET:
            relation, end = _wide(part, 8)
            if relation in parts:
                found[_wide(part, end)[0]] = _binary_cells(archive.read(parts[relation]), looks)
    return found


def binary_records(part: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and data of the records. Kinds have one or two bytes, lengths up to four."""
    at = 0
    while at + 2 <= len(part):
        kind, at = _number(part, at, 2)
        length, at = _number(part, at, 4)
        yield kind, part[at : at + length]
        at += length


def _number(part: bytes, at: int, most: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the place behind it."""
    value = 0
    for step in range(most):
        byte = part[at] if at < len(part) else 0
        value |= (byte & 0x7F) << 7 * step
        at += 1
        if byte < 0x80:  # noqa: PLR2004 - the sign that another byte follows
            break
    return value, at


def _binary_cells(part: bytes, looks: _Looks) -> Formats:
    sheet, row = Formats(), 0
    for kind, data in binary_records(part):
        if kind == _BINARY_ROW:
            row = int.from_bytes(data[:4], "little")
        elif kind in _BINARY_NUMBERS and (code := looks.format_of(int.from_bytes(data[4:7], "little"))):
            sheet[row, int.from_bytes(data[:4], "little")] = code
    return sheet


def _wide(part: bytes, at: int) -> tuple[str, int]:
    """Return a text behind its length, and the place behind it."""
    end = at + 4 + 2 * int.from_bytes(part[at : at + 4], "little")
    return part[at + 4 : end].decode("utf-16-le", "replace"), end
