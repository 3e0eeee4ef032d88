"""Bytes in, a document out. Types are told by name, so that a version is known without reading the file."""

from __future__ import annotations

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse import json, markdown, text, types

#: Raised by one when parsing or chunking files of that type changes: their next run parses them again, in place.
VERSIONS = {"code": 1, "json": 1, "markdown": 1, "text": 1}

#: What reads a type's text, beyond checking that it is one.
_READERS = {"json": json.read, "markdown": markdown.read}


def parse(name: str, data: bytes) -> Document:
    """The document in `data`, of the type that `name` tells. Positions in it count from behind a byte order mark.

    Raises `FileError`: `empty`, `unsupported_type`, `binary`, `not_utf8`, `no_text` or `parse_failed`.
    """
    if not data:
        raise FileError(Reason.EMPTY)
    refused = refusal(name)
    if refused:
        raise refused
    type_, language = types.of(name)
    content = text.decode(data)
    if type_ in _READERS:
        return _READERS[type_](content)
    return Document(content, type_, language)


def refusal(name: str) -> FileError | None:
    """The outcome of a file whose name alone tells that it is not read, so that nobody reads its bytes."""
    label = types.unsupported(name)
    return (
        FileError(Reason.UNSUPPORTED_TYPE, f"{label} is not read yet; export it as text, Markdown or JSON.")
        if label
        else None
    )


def type_of(path: str) -> str:
    """The type of a file as its name tells it."""
    return types.of(path.rsplit("/", 1)[-1])[0]


def version(name: str) -> str:
    """Code version of parser and chunker for a file of this name, such as "markdown-1"."""
    type_, _ = types.of(name)
    return f"{type_}-{VERSIONS[type_]}"
