"""Reads one file with its format's module, in this process. The text can be stored in Postgres."""

from __future__ import annotations

import codecs
import re
from dataclasses import fields, replace
from operator import attrgetter

from schemas.content.document import Document, DocumentProperties
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats.detect import without_header
from worker.formats.registry import Format, import_function
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.office.recovered_text import read_damaged
from worker.parse.opening import opening

#: NUL, and lone surrogates, which are not characters.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
#: Python's form of an object in a library's message. It does not help a reader.
_OBJECT = re.compile(r"\s*<[^<>]* at 0x[0-9a-f]+>")
#: Maximum non-continuation bytes of a character. UTF-16 and UTF-32 with a mark have more.
_MAX_LEAD_BYTES = 2
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_CHUNK_BYTES = 1 << 20
_properties_of = attrgetter(*(field.name for field in fields(DocumentProperties)))


def read(format_: Format, data: bytes, limits: Limits, language: str | None = None) -> Document:
    """Return the document in `data`. Raises `FileError`; any other exception of a library becomes `parse_failed`."""
    if not format_.isolated:
        _check_length(data, limits)
    try:
        document = _read(format_, data, limits, language)
    except FileError as error:
        found = error.reason is Reason.PARSE_FAILED and (
            read_damaged(lambda filled: _read(format_, filled, limits, language), data, format_.type, limits)
            or _without_header(format_, data, limits)
        )
        if not found:
            raise
        document = found
    limits.check_characters(len(document.text))
    if not document.text or document.text.isspace():
        raise FileError(Reason.NO_TEXT)
    if above := opening(document):
        document = replace(document, properties=replace(document.properties, opening=above))
    return _cleaned(document)


def _without_header(format_: Format, data: bytes, limits: Limits) -> Document | None:
    """Return the text of a file that only mentions a PDF's header; None for other files."""
    other = without_header(format_, data)
    try:
        return _read(other, data, limits, None) if other else None
    except FileError:
        return None


def _read(format_: Format, data: bytes, limits: Limits, language: str | None) -> Document:
    reader = import_function(format_.reader)
    try:
        arguments = (decode(data), language, limits) if format_.type == "code" else (data, limits)
        document: Document = reader(*arguments)
    except (FileError, MemoryError):
        raise
    except RecursionError:
        raise FileError(Reason.PARSE_FAILED, "The file is nested too deep; flatten or convert it.") from None
    except Exception as error:  # libraries raise all kinds of exceptions on damaged files
        message = f"The file is damaged ({type(error).__name__}: {_OBJECT.sub('', str(error))})"
        raise FileError(Reason.PARSE_FAILED, _clean(message[:400]) + "; repair or convert it.") from error
    return document


def _check_length(data: bytes, limits: Limits) -> None:
    """Refuse a file that is certainly too long before decoding, which may take four times its bytes."""
    max_lead_bytes = _MAX_LEAD_BYTES * limits.max_characters
    if len(data) > max_lead_bytes and not data.startswith(_WIDE_BOMS):
        chunks = (data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES))
        if sum(len(chunk.translate(None, _CONTINUATION_BYTES)) for chunk in chunks) > max_lead_bytes:
            limits.check_characters(max_lead_bytes)


def _cleaned(document: Document) -> Document:
    """Return the document with each character that Postgres rejects replaced by another, so that positions stay."""
    properties = _properties_of(document.properties)
    if all(map(_is_storable, (document.text, document.header, document.title or "", document.note, *properties))):
        # most documents, which need no copy
        return document
    return replace(
        document,
        text=_clean(document.text),
        header=_clean(document.header),
        title=None if document.title is None else _clean(document.title),
        note=_clean(document.note),
        properties=DocumentProperties(*map(_clean, properties)),
    )


def _clean(text: str) -> str:
    return text if _is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def _is_storable(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
