"""Prepares Word documents from before 2007 for catdoc: the text is a stream (MS-DOC) of a compound file."""

from __future__ import annotations

import re
import struct
from io import BytesIO

import olefile

_STREAM = "WordDocument"
#: Control characters for pictures, shapes, comment and note marks, and column breaks.
_SIGNS = rb"[\x01\x03-\x06\x08\x0e-\x12\x16-\x1d]"
_WIDE, _NARROW = re.compile(_SIGNS + rb"\0", re.DOTALL), re.compile(_SIGNS)
#: Their replacements: a character that catdoc skips, and a line break for a column break.
_NOTHING, _COLUMN, _LINE = 0x02, 0x0E, 0x0B
#: Where the stream's header holds the byte offsets of the text's start and end.
_TEXT = struct.Struct("<24xII")


def without_signs(data: bytes) -> bytes:
    """Replace control characters that are not text: catdoc drops the text before one in its paragraph."""
    copy = BytesIO(data)
    try:
        with olefile.OleFileIO(copy, write_mode=True) as document:
            stream = bytearray(document.openstream(_STREAM).read())
            begin, end = _TEXT.unpack_from(stream)
            for at in _signs(bytes(stream[begin:end])):
                stream[begin + at] = _LINE if stream[begin + at] == _COLUMN else _NOTHING
            document.write_stream(_STREAM, bytes(stream))
    except (OSError, ValueError, LookupError, TypeError, struct.error):
        # another format, or damaged: the converter reports it
        return data
    return copy.getvalue()


def _signs(text: bytes) -> list[int]:
    """Offsets of the control characters, in a text of two bytes per character (it contains NUL bytes) or of one."""
    if b"\0" in text:
        return [found.start() for found in _WIDE.finditer(text) if found.start() % 2 == 0]
    return [found.start() for found in _NARROW.finditer(text)]
