"""Turns bytes into a document. The name gives a type and version without reading; then the content decides."""

from __future__ import annotations

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats.detect import Detected, detect, refusal
from worker.formats.generated import generated_reason
from worker.formats.secrets import may_be_secret, without_keys
from worker.formats.versions import version
from worker.parse.encodings import is_utf8
from worker.parse.limits import Limits
from worker.parse.sandbox import client as sandbox
from worker.parse.sandbox.read import read

__all__ = ["Limits", "generated_reason", "is_secret", "max_seconds", "parse", "refusal", "version", "without_keys"]

#: Outcomes of data that is not text under a strict reading.
_NOT_TEXT = {Reason.BINARY, Reason.NOT_UTF8}
#: Replaces a NUL byte by one character, so that the number of characters stays the same.
_REPLACEMENT = "\ufffd".encode()


def parse(file: Detected, data: bytes, limits: Limits, *, binaries: bool = False) -> Document:
    """Parse `data`, whose detected format is `file`, into a document.

    Postgres can store every text in the document. Positions count from after a byte order mark. With `binaries`, files
    that are refused for their name or for NUL bytes are still read if they are text. Raises `FileError` with the
    reason.
    """
    if not data:
        raise FileError(Reason.EMPTY)
    if file.refusal and not binaries:
        raise file.refusal
    try:
        return _parsed(file, data, limits)
    except FileError as failure:
        if not binaries or failure.reason not in _NOT_TEXT:
            raise
        if b"\0" in data and is_utf8(data):
            text = data.replace(b"\0", _REPLACEMENT)
            return _parsed(detect(file.name, text), text, limits)
        raise (file.refusal or failure) from None


def is_secret(name: str, data: bytes, limits: Limits) -> bool:
    """Return whether a file is only a secret; a helper checks those that may be. Raises `FileError` as `parse` does."""
    return may_be_secret(name, data) and sandbox.is_secret(name, data, limits)


def _parsed(file: Detected, data: bytes, limits: Limits) -> Document:
    if file.failure:
        raise file.failure
    if file.format.is_isolated(len(data)):
        return sandbox.read(file.format, data, limits)
    return read(file.format, data, limits, file.language)


def max_seconds(file: Detected, size: int, limits: Limits) -> float | None:
    """Return the maximum seconds for reading an isolated file of `size` bytes; None if unlimited."""
    return sandbox.max_seconds(limits) if not file.failure and file.format.is_isolated(size) else None
