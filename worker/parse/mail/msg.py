"""Reads Outlook messages (MS-OXMSG): a short head, the text, and the names of attachments."""

from __future__ import annotations

import mimetypes
import struct
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import olefile

from schemas.content.document import Document
from schemas.errors import FileError
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.mail.email import attachments_line
from worker.parse.mail.outlook_parts import BINARY, DATA, FILE_NAMES, NARROW, WIDE, attachments, stream
from worker.parse.ocr.pictures import with_pictures
from worker.parse.office import rtf
from worker.parse.properties import properties_of
from worker.parse.web import html

#: Properties of a message, by the number in the names of its streams ([MS-OXPROPS]).
_HEAD = {"Subject": "0037", "From": "0C1A", "To": "0E04", "Cc": "0E03"}
_SENDER_ADDRESS = "5D01"
_TEXT, _RICH_TEXT, _HTML = "1000", "1009", "1013"
#: The head of compressed rich text ([MS-OXRTFCP]): size, size when decompressed, the mark of compression, a checksum.
_COMPRESSED = struct.Struct("<II4sI")
_MARK = b"LZFu"
_DICTIONARY_BYTES = 4096
#: Initial text of the dictionary.
_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans "
    rb"SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0" + b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def read(data: bytes, limits: Limits) -> Document:
    """Return the document of a message, with its subject as title. Attachments are named, not read."""
    with olefile.OleFileIO(BytesIO(data)) as file:
        head = [f"{name}: {value}" for name, value in _head(file) if value]
        head += attachments_line(list(_attachments(file)))
        body, markup = _body(file, limits)
        properties = properties_of(title=_value(file, _HEAD["Subject"]), author=_value(file, _HEAD["From"]))
        text = "\n".join(head) + f"\n\n{body}"
        document = Document(text.strip(), "msg", title=properties.title or None, markup=markup, properties=properties)
        return with_pictures(document, _pictures(file), limits)


def _head(file: Any) -> Iterator[tuple[str, str]]:
    for name, number in _HEAD.items():
        value = _line(_value(file, number))
        address = _line(_value(file, _SENDER_ADDRESS)) if name == "From" else ""
        yield name, f"{value} <{address}>".strip() if address and address != value else value


def _body(file: Any, limits: Limits) -> tuple[str, str]:
    """Return the plain text, else the page, else the rich text; and how it is cut."""
    plain = _value(file, _TEXT).strip()
    if plain:
        return plain.replace("\r\n", "\n"), "lines"
    page = _bytes(file, _HTML) or _value(file, _HTML).encode()
    if page.strip():
        return html.to_markdown(decode(page)), "markdown"
    rich = _bytes(file, _RICH_TEXT)
    return (rtf.read(_decompressed(rich, limits), limits).text, "markdown") if rich else ("", "lines")


def _attachments(file: Any) -> Iterator[str]:
    for folder in attachments(file):
        yield next((name for number in FILE_NAMES if (name := _line(_value(file, number, folder)))), "(unnamed)")


def _pictures(file: Any) -> Iterator[bytes]:
    """Yield the attachments that are pictures by their name."""
    for folder, name in zip(attachments(file), _attachments(file), strict=True):
        if (mimetypes.guess_type(name)[0] or "").startswith("image/"):
            yield stream(file, DATA, BINARY, folder)


def _value(file: Any, number: str, folder: str = "") -> str:
    """Return a property's text."""
    wide = stream(file, number, WIDE, folder)
    if wide:
        return wide.decode("utf-16-le", "replace").rstrip("\0")
    narrow = stream(file, number, NARROW, folder).rstrip(b"\0")
    try:
        return decode(narrow) if narrow else ""
    except FileError:
        return narrow.decode("cp1252", "replace")


def _bytes(file: Any, number: str) -> bytes:
    return stream(file, number, BINARY)


def _line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())


def _decompressed(data: bytes, limits: Limits) -> bytes:
    """Return decompressed rich text, whose compression uses references into the last 4,096 bytes."""
    _, size, mark, _ = _COMPRESSED.unpack_from(data)
    at = _COMPRESSED.size
    if mark != _MARK:
        return data[at : at + size]
    limits.check_characters(size)
    ring = bytearray(_DICTIONARY.ljust(_DICTIONARY_BYTES, b" "))
    write = len(_DICTIONARY)
    made = bytearray()
    while at < len(data) and len(made) < size:
        flags = data[at]
        at += 1
        for bit in range(8):
            pair = data[at : at + 2]
            if flags >> bit & 1:
                reference = int.from_bytes(pair, "big")
                start, length = reference >> 4, (reference & 15) + 2
                if len(pair) < 2 or start == write:  # noqa: PLR2004 - a reference has two bytes
                    return bytes(made)
                at += 2
            else:
                start, length = -1, 1
                at += 1
            for step in range(length):
                byte = pair[:1] if start < 0 else bytes([ring[(start + step) % _DICTIONARY_BYTES]])
                made += byte
                ring[write : write + 1] = byte or b" "
                write = (write + 1) % _DICTIONARY_BYTES
    return bytes(made)
