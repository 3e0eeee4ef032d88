"""Repairs e-mail messages whose parts have no boundary between them."""

from __future__ import annotations

import re
from email import message_from_string
from email.errors import CloseBoundaryNotFoundDefect
from email.message import Message
from email.policy import Policy

#: A line that may begin a part, and the header below it.
_BOUNDARY = re.compile(
    r"^--(?P<boundary>[^\s-][^\r\n]{0,69}?|-{1,40}[^\s-][^\r\n]{0,69}?)[ \t]*\r?\n(?=[Cc]ontent-[\w-]{1,40}:)",
    re.MULTILINE,
)
#: Maximum number of parts that are divided, because each is read again.
_MAX_DIVIDED = 20
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|div|p|table|meta|style)\b", re.IGNORECASE)


def mend(message: Message, policy: Policy) -> str:
    """Divide parts whose boundary is missing. Returns a description of the damage; "" if there is none."""
    divided, is_cut = 0, False
    for part in message.walk():
        is_cut = is_cut or any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in part.defects)
        payload = part.get_payload()
        is_cut = _mend_base64(part, payload) or is_cut
        if part.get_content_maintype() != "multipart" or not isinstance(payload, str) or not payload.strip():
            continue
        if divided < _MAX_DIVIDED:
            divided += 1
            part.set_payload([_divided(part, payload, policy)])
    lost = [*(["the boundary of its parts"] if divided else []), *(["its end"] if is_cut else [])]
    return " and ".join(lost)


def _mend_base64(part: Message, payload: object) -> bool:
    """Drop the last character of a text in base64 that is one too long, as of a cut message; the library drops all."""
    is_text = isinstance(payload, str) and part.get_content_maintype() == "text"
    if not is_text or str(part.get("Content-Transfer-Encoding", "")).strip().lower() != "base64":
        return False
    encoded = "".join(str(payload).split())
    if len(encoded.rstrip("=")) % 4 != 1:
        return False
    part.set_payload(encoded.rstrip("=")[:-1])
    return True


def _divided(part: Message, payload: str, policy: Policy) -> Message:
    """Return the text of a part, divided at the first line that looks like a boundary, else as one text."""
    found = _BOUNDARY.search(payload)
    if found:
        quoted = found["boundary"].replace("\\", "\\\\").replace('"', '\\"')
        head = f'Content-Type: multipart/mixed; boundary="{quoted}"\n\n'
        divided = message_from_string(head + payload, policy=policy)
        if divided.is_multipart():
            return divided
    kind = "html" if _PAGE.match(payload) else "plain"
    encoding = part.get("Content-Transfer-Encoding")
    stated = f"Content-Transfer-Encoding: {encoding}\n" if encoding else ""
    return message_from_string(f"Content-Type: text/{kind}\n{stated}\n{payload}", policy=policy)
