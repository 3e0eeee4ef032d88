"""Bytes to text: UTF-8 only, kept as it is but for a byte order mark, so that positions match the file."""

from __future__ import annotations

import codecs

from schemas.errors import FileError
from schemas.status import Reason

#: Signatures of binary formats whose first bytes could pass as text.
_SIGNATURES = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive or office document",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard archive",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"\x7fELF": "an executable",
    b"\xca\xfe\xba\xbe": "a compiled class or executable",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"{\\rtf": "a rich text document",
}


def decode(data: bytes) -> str:
    """The text of `data`. Raises `FileError`: `binary`, `not_utf8` (with the byte's offset), `no_text`."""
    _refuse_binary(data)
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        offset = error.start + len(data) - len(body)
        message = f"The byte at offset {offset} is not valid UTF-8; save the file as UTF-8 and index again."
        raise FileError(Reason.NOT_UTF8, message) from None
    if not text or text.isspace():
        raise FileError(Reason.NO_TEXT)
    return text


def _refuse_binary(data: bytes) -> None:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FileError(Reason.NOT_UTF8, "The file is UTF-16 from offset 0 on; save it as UTF-8 and index again.")
    for signature, what in _SIGNATURES.items():
        if data.startswith(signature):
            raise FileError(Reason.BINARY, f"The file is {what}; export it as text to make it searchable.")
    offset = data.find(b"\0")
    if offset >= 0:
        message = f"There is a NUL byte at offset {offset}, so this is not text; export it as text to search it."
        raise FileError(Reason.BINARY, message)
