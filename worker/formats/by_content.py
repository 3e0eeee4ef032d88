"""Detects a file's type by its bytes, which take precedence over its name."""

from __future__ import annotations

from schemas.errors import FileError
from schemas.status import Reason
from worker.formats import by_name
from worker.formats.magic import any_kind_of
from worker.formats.registry import BY_EXTENSION, BY_TYPE, Format

#: A document in a ZIP container. Its members tell the type, and only the helper process reads them.
PACKAGE = Format("package", "", "office.zip_container", isolated=True)

#: Mail and web servers may put bytes in front of the header; PDF readers find it within this many bytes.
_PDF_HEADER_WITHIN = 1024
_MARKUP = {b"<!doctype html": "html", b"<html": "html", b"<?xml": "xml"}


def detect(name: str, data: bytes) -> tuple[Format, str | None]:
    """The format of a file, and its language if it is code.

    Raises `FileError` (`unsupported_type`, `encrypted`) for formats that are known but not read.
    """
    told = by_name.of(name)
    found = _by_magic(data) or (_by_guess(told[0], data) if told[0].binary else None)
    return (found, None) if found else told


def _by_magic(data: bytes) -> Format | None:
    kind = any_kind_of(data)
    if kind == "zip":
        return PACKAGE
    return _compound(data) if kind == "ole" else BY_EXTENSION.get(kind or "")


def _compound(data: bytes) -> Format:
    """What a compound file of the old office suites holds, judged by its stream names."""
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise FileError(Reason.ENCRYPTED)
    if "WordDocument".encode("utf-16-le") in data:
        return BY_TYPE["doc"]
    message = "The file is an old office document other than .doc; save it as .xlsx, .pptx or .pdf."
    raise FileError(Reason.UNSUPPORTED_TYPE, message)


def _by_guess(told: Format, data: bytes) -> Format:
    """The format of a file that is not what its name says: usually some kind of text."""
    if told.type == "pdf" and b"%PDF-" in data[:_PDF_HEADER_WITHIN]:
        return told
    start = data[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return BY_TYPE[next((type_ for mark, type_ in _MARKUP.items() if start.startswith(mark)), "text")]
