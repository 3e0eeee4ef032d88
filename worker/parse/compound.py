"""The text of Word documents of before 2007 made fit for catdoc: a stream (MS-DOC) of a compound file (MS-CFB)."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STREAM = "WordDocument\0".encode("utf-16-le")
#: Bytes of a directory's entry; where the head names the table's first sectors, and how many.
_ENTRY, _TABLE, _NAMED = 128, 0x4C, 109
#: What is no number of a sector.
_LAST = 0xFFFFFFFA
#: Signs that stand for pictures, shapes, marks of comments and notes, and breaks of columns.
_SIGNS = rb"[\x01\x03-\x06\x08\x0e-\x12\x16-\x1d]"
_WIDE, _NARROW = re.compile(_SIGNS + rb"\0", re.DOTALL), re.compile(_SIGNS)
#: What they become: a sign that catdoc passes over, and for the break of a column one of a line.
_NOTHING, _COLUMN, _LINE = 0x02, 0x0E, 0x0B
#: Shorter streams lie in one of their own, in sectors of so many bytes.
_SHORT, _SMALL = 4096, 64


def without_signs(data: bytes) -> bytes:
    """The document without signs that are no text: catdoc leaves out what stands before one in its paragraph."""
    try:
        return _without_signs(bytearray(data)) if data.startswith(_MAGIC) else data
    except (struct.error, IndexError):
        # damaged, or of more sectors than the head names: it is left as it is
        return data


def _without_signs(data: bytearray) -> bytes:
    places, size = _text_places(data)
    stream = b"".join(data[at : at + size] for at in places)
    if stream:
        begin, end = _number(stream, 0x18), _number(stream, 0x1C)
        for at in _signs(stream[begin:end]):
            sector, within = divmod(begin + at, size)
            place = places[sector] + within
            data[place] = _LINE if data[place] == _COLUMN else _NOTHING
    return bytes(data)


def _text_places(data: bytearray) -> tuple[list[int], int]:
    """Where the sectors of the stream with the text begin in the file, and how long each is."""
    size = 1 << min(_number(data, 0x1E) & 0xFFFF, 16)
    named = struct.unpack_from(f"<{_NAMED}I", data, _TABLE)
    # no longer than there are sectors, which bounds a chain that bites its own tail
    table = _numbers(data, [sector for sector in named if sector < _LAST], size)[: len(data) // size]
    directory = b"".join(data[at : at + size] for at in _places(table, _number(data, 0x30), size))
    entries = [directory[at : at + _ENTRY] for at in range(0, len(directory), _ENTRY)]
    entry = next((entry for entry in entries if entry.startswith(_STREAM)), None)
    if entry is None:
        return [], size
    first, length = struct.unpack_from("<II", entry, 0x74)
    if length >= _SHORT:
        return _places(table, first, size), size
    holder = _places(table, _number(entries[0], 0x74), size)
    small = _numbers(data, _chain(table, _number(data, 0x3C)), size)[: len(data) // _SMALL]
    starts = (sector * _SMALL for sector in _chain(small, first))
    return [holder[start // size] + start % size for start in starts], _SMALL


def _signs(text: bytes) -> list[int]:
    """Where they are in a text of two bytes a character, which has ends of lines, or of one."""
    if b"\0" in text:
        return [found.start() for found in _WIDE.finditer(text) if found.start() % 2 == 0]
    return [found.start() for found in _NARROW.finditer(text)]


def _places(table: Sequence[int], sector: int, size: int) -> list[int]:
    return [(number + 1) * size for number in _chain(table, sector)]


def _chain(table: Sequence[int], sector: int) -> list[int]:
    """A sector and those that follow it."""
    chain: list[int] = []
    while sector < _LAST and len(chain) <= len(table):
        chain.append(sector)
        sector = table[sector]
    return chain


def _numbers(data: bytearray, sectors: Sequence[int], size: int) -> list[int]:
    return [number for s in sectors for number in struct.unpack_from(f"<{size // 4}I", data, (s + 1) * size)]


def _number(data: bytes | bytearray, at: int) -> int:
    number: int = struct.unpack_from("<I", data, at)[0]
    return number
