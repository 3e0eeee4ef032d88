"""Parses an e-mail message in time that is linear in it, and finds its attachments."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from email.policy import Compat32
from typing import Any

#: Characters of a header that are read: some hundred recipients. The library takes quadratic time.
MAX_HEADER_CHARS = 8192
#: Semicolons of a MIME header that are read. The library's time is the product of their number and the header's length.
MAX_SEMICOLONS = 64
#: Maximum levels of parts. Deeper parts are text: the library compares each line with the boundaries of all levels.
MAX_LEVELS = 20


class _Part(Message):
    """A message or a part of one, with its nesting depth."""

    _level = 0

    def attach(self, payload: Any) -> None:
        """See the library, which attaches a part before it reads it."""
        payload._level = self._level + 1  # noqa: SLF001 - another object of this class
        super().attach(payload)

    def get_content_type(self) -> str:
        """See the library."""
        return super().get_content_type() if self._level < MAX_LEVELS else "text/plain"


class BoundedHeaders(Compat32):
    """Truncates headers that no person wrote."""

    message_factory = _Part

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """See the library."""
        name, value = super().header_source_parse(sourcelines)
        value = value[:MAX_HEADER_CHARS]
        if name.lower().startswith("content-"):
            value = ";".join(value.split(";", MAX_SEMICOLONS)[:MAX_SEMICOLONS])
        return name, value


_BOUNDED = BoundedHeaders()


def message_of(data: bytes, policy: BoundedHeaders = _BOUNDED) -> Message:
    """Return the message in `data`, with its parts."""
    return message_from_bytes(data, policy=policy)


def attached(part: Message) -> Iterator[Message]:
    """Yield the parts at and below `part` that are separate files. Attached messages are not opened."""
    if is_attached(part):
        yield part
    for each in inner_parts(part):
        yield from attached(each)


def inner_parts(part: Message) -> list[Message]:
    """Return the parts of a part. Attached messages are not opened."""
    inner = part.get_payload() if part.is_multipart() and not is_attached(part) else []
    return [each for each in inner if isinstance(each, Message)]


def is_attached(part: Message) -> bool:
    """Return whether a part is a separate file. Never true for a part that only contains other parts."""
    is_file = bool(part.get_filename()) or part.get_content_disposition() == "attachment"
    return is_file and part.get_content_maintype() != "multipart"
