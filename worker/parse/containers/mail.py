"""Attachments of e-mail messages."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message

from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.containers import Container, cleaned, of_its_own, too_much
from worker.parse.mail.mended import mend
from worker.parse.mail.parts import attached, message_of
from worker.sandbox.members import MAX_MEMBERS, Member


def open_mail(data: bytes) -> Container:
    """See `Opener`. A message in UTF-16 has no attachments."""
    message = message_of(data.lstrip(b"\xef\xbb\xbf\r\n"))
    mend(message, message.policy)
    return _Mail(message)


class _Mail:
    def __init__(self, message: Message) -> None:
        self._parts: dict[str, Message] = {}
        for number, part in enumerate(attached(message), 1):
            if number > MAX_MEMBERS:
                raise too_much()
            self._parts[of_its_own(_name(part, number), number, self._parts)] = part

    def members(self) -> Iterator[Member]:
        """See `Container`."""
        for path, part in self._parts.items():
            yield Member(path, _size(part))

    def read(self, path: str, limit: int) -> bytes:
        """See `Container`."""
        part = self._parts.get(path)
        if part is None:
            raise FileError(Reason.UNREADABLE)
        data = _data(part)
        if len(data) > limit:
            raise FileError(Reason.TOO_LARGE)
        return data


def _size(part: Message) -> int:
    """Return the bytes of a part. Most parts are well-formed base64, whose size is known without decoding it."""
    payload = part.get_payload()
    if isinstance(payload, str) and str(part.get("Content-Transfer-Encoding", "")).strip().lower() == "base64":
        letters = len(payload) - sum(map(payload.count, " \t\r\n="))
        return letters * 3 // 4
    return len(_data(part))


def _data(part: Message) -> bytes:
    if part.get_content_type() == "message/rfc822":
        inner = part.get_payload()
        return b"".join(bytes(each) for each in inner if isinstance(each, Message)) if isinstance(inner, list) else b""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _name(part: Message, number: int) -> str:
    """Return the file name that a part states, without directories; for an attached message, its subject."""
    name = _decoded(part.get_filename())
    if not name and part.get_content_type() == "message/rfc822":
        inner = part.get_payload()
        subject = inner[0].get("Subject") if isinstance(inner, list) and isinstance(inner[0], Message) else None
        name = f"{_decoded(subject) or number}.eml"
    name = cleaned(name.replace("/", "_").replace("\\", "_"))
    return name or f"attachment {number}{mimetypes.guess_extension(part.get_content_type()) or ''}"


def _decoded(header: object) -> str:
    """Return a header's text on one line. One that cannot be decoded stays as it is."""
    raw = str(header or "")
    try:
        text = str(make_header(decode_header(raw)))
    except (HeaderParseError, LookupError, ValueError):
        text = raw
    return " ".join(text.split())
