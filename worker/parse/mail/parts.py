"""Finds the attachments of an e-mail message."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message


def attached(part: Message) -> Iterator[Message]:
    """The parts at and below `part` that are files of their own. Attached messages are not opened."""
    if is_attached(part):
        yield part
    for each in inner_parts(part):
        yield from attached(each)


def inner_parts(part: Message) -> list[Message]:
    """The parts of a part. Attached messages are not opened."""
    inner = part.get_payload() if part.is_multipart() and not is_attached(part) else []
    return [each for each in inner if isinstance(each, Message)]


def is_attached(part: Message) -> bool:
    """Whether a part is a file of its own. Never true for a part that only holds other parts."""
    is_file = bool(part.get_filename()) or part.get_content_disposition() == "attachment"
    return is_file and part.get_content_maintype() != "multipart"
