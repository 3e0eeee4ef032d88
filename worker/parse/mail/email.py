"""Reads e-mail messages: a short head, the plain text (or else the HTML), and the names of attachments.

Pages that a browser saves as one file (MHTML) are messages, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from itertools import chain

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.wording import list_first
from worker.parse.encodings import decode, decoded, text_encoding
from worker.parse.limits import Limits
from worker.parse.mail.mended import mend
from worker.parse.mail.parts import BoundedHeaders, attached, inner_parts, is_attached, message_of
from worker.parse.ocr.pictures import with_pictures
from worker.parse.properties import properties_of
from worker.parse.text.markdown_blocks import paragraph
from worker.parse.web import html

_SHOWN_HEADERS = ("Subject", "From", "To", "Cc", "Date")

#: Maximum characters in one header line: lists of hundreds of recipients carry little information.
_MAX_HEADER_CHARS = 1000
#: Maximum attachment names that are listed.
_MAX_NAMED = 100


#: Transfer encodings that keep the bytes of another encoding.
_ENCODED = {"base64", "quoted-printable", "x-uuencode", "uuencode", "uue", "x-uue"}
#: The beginning of a message in UTF-16.
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
#: Bytes searched for the zero bytes of UTF-16. No header has any.
_HEAD_BYTES = 200
#: Pairs of markup and text, in the order shown.
_Shown = list[tuple[str, str]]
#: Text types that are not read.
_UNREAD_TYPES = {"text/css", "text/javascript"}


class _Readable(BoundedHeaders):
    """Treats headers with raw non-ASCII bytes, which a separate standard allows, as text.

    Uses the compatible policy, as the newer one's address parser fails on some addresses in use.
    """

    def header_fetch_parse(self, name: str, value: str) -> str:  # noqa: ARG002 - the base class's signature
        return _guessed(value.encode("utf-8", "surrogateescape"))


def read(data: bytes, limits: Limits) -> Document:
    """Return the document of a message, with its subject as title. Attachments are named, not read.

    Character offsets count in the text built here, not in the file.
    """
    message = _message(data)
    lost, failures = mend(message, message.policy), list[FileError]()
    head = "\n".join([*_head(message), *_attachments(message)])
    shown = _shown(message, failures)
    if failures and not shown:
        raise failures[0]
    markup = "markdown" if any(markup == "markdown" for markup, _ in shown) else "lines"
    body = "\n\n".join(text if markup in ("lines", own_markup) else paragraph(text) for own_markup, text in shown)
    properties = properties_of(
        title=_header(message, "Subject"), author=_header(message, "From"), created=_header(message, "Date")
    )
    title = properties.title or None
    lost = " and ".join(filter(None, [lost, f"{len(failures)} of its parts" if failures else ""]))
    note = f"The message is damaged ({lost} cannot be read or found); save it again to find all." if lost else ""
    document = Document(f"{head}\n\n{body}".strip(), "email", None, title, markup, properties=properties, note=note)
    return with_pictures(document, _pictures(message), limits)


def pictures(data: bytes) -> Iterator[bytes]:
    """Yield the files of the pictures in a message and those within it."""
    yield from _pictures(_message(data))


def _pictures(message: Message) -> Iterator[bytes]:
    for part in message.walk():
        picture = part.get_payload(decode=True) if part.get_content_maintype() == "image" else None
        if isinstance(picture, bytes):
            yield picture


def _message(data: bytes) -> Message:
    return message_of(_narrow(data).lstrip(b"\xef\xbb\xbf\r\n"), _Readable())


def _narrow(data: bytes) -> bytes:
    """Return a message saved in UTF-16 as UTF-8. Its header may then declare another encoding than its text has."""
    if data[:2] not in _WIDE_MARKS and b"\0" not in data[:_HEAD_BYTES]:
        return data
    try:
        return decode(data).encode()
    except FileError:
        return data


def _shown(part: Message, failures: list[FileError]) -> _Shown:
    """Return the texts of a part, in order, and add the reason for each unreadable one to `failures`.

    Of alternatives: the first plain text, else the last HTML, which is the best.
    """
    inner = [shown for each in inner_parts(part) if (shown := _shown(each, failures))]
    if inner and part.get_content_type() == "multipart/alternative":
        # a calendar alternative may repeat the content
        kinds = {shown[0][0]: shown for shown in inner if shown[0][0] != "lines"}
        return next((shown for shown in inner if shown[0][0] == "lines"), kinds.get("markdown", inner[-1]))
    if part.get_content_type() == "message/rfc822":
        # a forwarded or returned message: its sender and subject appear nowhere else
        inner = [[("lines", "\n".join(_head(each))) for each in inner_parts(part) if any(_head(each))], *inner]
    try:
        return [*chain.from_iterable(inner), *_own_text(part)]
    except FileError as failure:
        failures.append(failure)
        return [*chain.from_iterable(inner)]


def _own_text(part: Message) -> _Shown:
    kind = "" if part.is_multipart() or is_attached(part) else part.get_content_type()
    if kind == "text/plain":
        shown = "lines", _text(part).strip()
    elif kind == "text/html":
        shown = "markdown", html.to_markdown(_text(part))
    elif kind.startswith("text/") and kind not in _UNREAD_TYPES:
        shown = "markdown" if kind == "text/markdown" else "other", _text(part).strip()
    else:
        return []
    return [shown] if shown[1] else []


def _head(message: Message) -> Iterator[str]:
    for name in _SHOWN_HEADERS:
        value = _header(message, name)
        if value:
            yield f"{name}: {value}"


def _header(message: Message, name: str) -> str:
    return _unfolded(str(message.get(name, "")))


def _unfolded(raw: str) -> str:
    """Return a header's text on one line. Words in unknown encodings stay encoded."""
    try:
        parts = decode_header(raw)
    except HeaderParseError:
        parts = [(raw, None)]
    return " ".join("".join(_word(part, charset) for part, charset in parts).split())[:_MAX_HEADER_CHARS]


def _word(part: str | bytes, charset: str | None) -> str:
    if isinstance(part, str):
        return part
    try:
        if charset is None:
            # text between encoded words arrives in Python's raw-unicode-escape
            return part.decode("raw-unicode-escape")
        return decoded(part, charset) or part.decode(text_encoding(charset), "replace")
    except (LookupError, UnicodeDecodeError):
        return _guessed(part)


def _guessed(text: bytes) -> str:
    """Decode header text that names no encoding."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _attachments(message: Message) -> Iterator[str]:
    return attachments_line([_name(part) for part in attached(message)])


def attachments_line(names: Sequence[str]) -> Iterator[str]:
    """Yield the line of a message's head that names its attachments, if it has any."""
    if names:
        yield f"Attachments: {list_first(names, _MAX_NAMED)}"


def _name(part: Message) -> str:
    """Return the name of an attachment; for a message it is the subject."""
    within = part.get_payload() if part.get_content_type() == "message/rfc822" else []
    subjects = [_header(each, "Subject") for each in within if isinstance(each, Message)]
    return _unfolded(str(part.get_filename() or "")) or " ".join(subjects) or "(unnamed)"


def _text(part: Message) -> str:
    """Return a part's text in the encoding it names, or in the likeliest one if that is missing or unusable."""
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes) or not payload.strip():
        return ""
    charset = str(part.get_content_charset() or "utf-8")
    if _is_utf8(part, payload, charset):
        return payload.decode()
    try:
        return decoded(payload, charset) or payload.decode(text_encoding(charset))
    except (LookupError, UnicodeDecodeError):
        return decode(payload)


def _is_utf8(part: Message, payload: bytes, charset: str) -> bool:
    """Return whether an unencoded part is UTF-8 despite its declaration, as in a message that was saved again."""
    is_encoded = str(part.get("Content-Transfer-Encoding", "")).strip().lower() in _ENCODED
    if is_encoded or (payload.isascii() and not charset.startswith(("utf-16", "utf-32"))) or b"\0" in payload:
        return False
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
