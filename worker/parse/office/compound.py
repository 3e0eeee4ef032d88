"""Prepares Word documents from before 2007 for catdoc: the text is a stream (MS-DOC) of a compound file."""

from __future__ import annotations

import re
import struct
from io import BytesIO

import olefile

_STREAM = "WordDocument"
#: Control characters for pictures, shapes, comment and note marks, and column breaks.
_SIGNS = rb"[\x01\x03-\x06\x08\x0e-\x12\x16-\x1d]"
_TWO_BYTE_SIGNS = re.compile(_SIGNS + rb"\0")
_ONE_BYTE_SIGNS = re.compile(_SIGNS)
#: A character that catdoc skips. It replaces all of these except column breaks.
_SKIPPED = 0x02
_COLUMN_BREAK = 0x0E
#: Replaces a column break.
_LINE_BREAK = 0x0B
#: Position of the byte offsets of the text's start and end in the stream's header.
_TEXT = struct.Struct("<24xII")


def without_signs(data: bytes) -> bytes:
    """Replace control characters that are not text: catdoc drops the text before one in its paragraph."""
    copy = BytesIO(data)
    try:
        with olefile.OleFileIO(copy, write_mode=True) as document:
            stream = bytearray(document.openstream(_STREAM).read())
            begin, end = _TEXT.unpack_from(stream)
            for offset in _signs(bytes(stream[begin:end])):
                stream[begin + offset] = _LINE_BREAK if stream[begin + offset] == _COLUMN_BREAK else _SKIPPED
            document.write_stream(_STREAM, bytes(stream))
    except (OSError, ValueError, LookupError, TypeError, struct.error):
        # another format, or damaged: the converter reports it
        return data
    return copy.getvalue()


def _signs(text: bytes) -> list[int]:
    """Offsets of the control characters, in a text of two bytes per character (it contains NUL bytes) or of one."""
    if b"\0" in text:
        return [match.start() for match in _TWO_BYTE_SIGNS.finditer(text) if match.start() % 2 == 0]
    return [match.start() for match in _ONE_BYTE_SIGNS.finditer(text)]
