"""Turns bytes into a document. The name gives a type and version without reading; then the content decides."""

from __future__ import annotations

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.formats import by_name as names
from worker.formats import unsupported
from worker.formats.by_content import detect
from worker.formats.mime import mime_of
from worker.ignore.generated import by_a_tool
from worker.parse.code.grammar import is_known
from worker.parse.limits import Limits
from worker.parse.sandbox import client as sandbox
from worker.parse.sandbox.read import read

__all__ = ["Limits", "by_a_tool", "language_of", "longest", "mime_of", "parse", "refusal", "type_of", "version"]

#: Outcomes of data that is not text when read strictly.
_NO_TEXT = {Reason.BINARY, Reason.NOT_UTF8}
#: Replaces a NUL byte by one character, so that the number of characters stays the same.
_REPLACED = "\ufffd".encode()


def parse(name: str, data: bytes, limits: Limits, *, binaries: bool = False) -> Document:
    """Parse `data` into a document, by the type that its content suggests, else its name.

    Postgres can store every text in the document. Positions count from after a byte order mark. With `binaries`, files
    that are refused for their name or for NUL bytes are still read if they are text. Raises `FileError` with the
    reason.
    """
    if not data:
        raise FileError(Reason.EMPTY)
    refused = refusal(name)
    if refused and not binaries:
        raise refused
    try:
        return _parsed(name, data, limits)
    except FileError as failure:
        if not binaries or failure.reason not in _NO_TEXT:
            raise
        if b"\0" in data and _is_utf8(data):
            return _parsed(name, data.replace(b"\0", _REPLACED), limits)
        raise (refused or failure) from None


def _parsed(name: str, data: bytes, limits: Limits) -> Document:
    format_, language = detect(name, data)
    if format_.is_isolated(len(data)):
        return sandbox.read(format_, data, limits)
    return read(format_, data, limits, language)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def longest(name: str, data: bytes, limits: Limits) -> float | None:
    """Maximum seconds that reading an isolated file can take before it is given up; None if there is no limit."""
    try:
        return sandbox.longest(limits) if detect(name, data)[0].is_isolated(len(data)) else None
    except FileError:
        return None


def refusal(name: str) -> FileError | None:
    """The error for a file that is refused by name alone, so that its bytes need not be read."""
    sentence = unsupported.unsupported(name)
    return FileError(Reason.UNSUPPORTED_TYPE, sentence) if sentence else None


def type_of(path: str) -> str:
    """The type of a file, by its name."""
    return names.of(path.rsplit("/", 1)[-1])[0].type


def language_of(name: str) -> str | None:
    """The language of code, by the file's name."""
    return names.of(name)[1]


def version(name: str) -> str:
    """Code version of parser and chunker for a file of this name, such as "markdown-1" or "pdf-1 tesseract".

    Installing a program or a grammar changes the version, so that files are read again with its help.
    """
    format_, language = names.of(name)
    grammar = ["grammar"] if language and is_known(language) else []
    return " ".join([f"{format_.type}-{format_.version}", *unsupported.programs(format_.programs), *grammar])
