"""The text of Word documents of before 2007 made fit for catdoc: a stream (MS-DOC) of a compound file."""

from __future__ import annotations

import re
import struct
from io import BytesIO

import olefile

_STREAM = "WordDocument"
#: Signs that stand for pictures, shapes, marks of comments and notes, and breaks of columns.
_SIGNS = rb"[\x01\x03-\x06\x08\x0e-\x12\x16-\x1d]"
_WIDE, _NARROW = re.compile(_SIGNS + rb"\0", re.DOTALL), re.compile(_SIGNS)
#: What they become: a sign that catdoc passes over, and for the break of a column one of a line.
_NOTHING, _COLUMN, _LINE = 0x02, 0x0E, 0x0B
#: Where a stream says at which of its bytes its text begins, and where it ends.
_TEXT = struct.Struct("<24xII")


def without_signs(data: bytes) -> bytes:
    """The document without signs that are no text: catdoc leaves out what stands before one in its paragraph."""
    copy = BytesIO(data)
    try:
        with olefile.OleFileIO(copy, write_mode=True) as document:
            stream = bytearray(document.openstream(_STREAM).read())
            begin, end = _TEXT.unpack_from(stream)
            for at in _signs(bytes(stream[begin:end])):
                stream[begin + at] = _LINE if stream[begin + at] == _COLUMN else _NOTHING
            document.write_stream(_STREAM, bytes(stream))
    except (OSError, ValueError, LookupError, TypeError, struct.error):
        # another format, or damaged: whoever reads it says so
        return data
    return copy.getvalue()


def _signs(text: bytes) -> list[int]:
    """Where they are in a text of two bytes a character, which has ends of lines, or of one."""
    if b"\0" in text:
        return [found.start() for found in _WIDE.finditer(text) if found.start() % 2 == 0]
    return [found.start() for found in _NARROW.finditer(text)]
