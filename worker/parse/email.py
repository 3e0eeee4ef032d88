"""E-mail messages: a short head, the text, else the page, and the names of what is attached."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message

from schemas.document import Document
from worker.parse import html
from worker.parse.limits import Limits
from worker.parse.text import decode, decoded

_HEAD = ("Subject", "From", "To", "Cc", "Date")

#: Characters of one line of the head: lists of hundreds of recipients say little.
_LONGEST_HEADER = 1000
#: Names of attachments that are listed.
_MOST_ATTACHMENTS = 100


def read(data: bytes, _limits: Limits) -> Document:
    """The document of a message, its subject the title. Attachments are named, not read.

    Characters count in the text made here, not in the file.
    """
    # the compatible policy: the newer one's parser of addresses fails on some that are in use
    message: Message = message_from_bytes(data.lstrip(b"\xef\xbb\xbf\r\n"))
    leaves = [part for part in message.walk() if not part.is_multipart()]
    texts = [part for part in leaves if part.get_content_type() == "text/plain" and not _is_attached(part)]
    pages = [part for part in leaves if part.get_content_type() == "text/html" and not _is_attached(part)]
    head = "\n".join([*_head(message), *_attachments(message)])
    body = "\n\n".join(_text(part).strip() for part in texts)
    markup = "lines"
    if not body.strip():
        markup = "markdown"
        body = "\n\n".join(html.to_markdown(_text(part))[0] for part in pages)
    return Document(f"{head}\n\n{body}".strip(), "email", None, _header(message, "Subject") or None, markup=markup)


def _head(message: Message) -> Iterator[str]:
    for name in _HEAD:
        value = _header(message, name)
        if value:
            yield f"{name}: {value}"


def _header(message: Message, name: str) -> str:
    return _unfolded(str(message.get(name, "")))


def _unfolded(raw: str) -> str:
    """A header's text on one line; words in encodings that nobody knows stay encoded."""
    try:
        parts = decode_header(raw)
    except HeaderParseError:
        parts = [(raw, None)]
    return " ".join("".join(_word(part, charset) for part, charset in parts).split())[:_LONGEST_HEADER]


def _word(part: str | bytes, charset: str | None) -> str:
    if isinstance(part, str):
        return part.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return decoded(part, charset or "utf-8") or part.decode(charset or "utf-8", "replace")
    except LookupError:
        return part.decode("latin-1")


def _attachments(message: Message) -> Iterator[str]:
    names = [_unfolded(str(part.get_filename() or "")) for part in message.walk() if _is_attached(part)]
    named = [name or "(unnamed)" for name in names]
    if named:
        more = f" and {len(named) - _MOST_ATTACHMENTS} more" if len(named) > _MOST_ATTACHMENTS else ""
        yield f"Attachments: {', '.join(named[:_MOST_ATTACHMENTS])}{more}"


def _is_attached(part: Message) -> bool:
    return bool(part.get_filename()) or part.get_content_disposition() == "attachment"


def _text(part: Message) -> str:
    """A part's text in the encoding it names; in the likeliest one if there is no such."""
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes) or not payload.strip():
        return ""
    charset = str(part.get_content_charset() or "utf-8")
    try:
        return decoded(payload, charset) or payload.decode(charset)
    except (LookupError, UnicodeDecodeError):
        return decode(payload)
