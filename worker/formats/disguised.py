"""Detects the format of a text with the name of an office document or a mail."""

from __future__ import annotations

import re

from worker.formats.registry import BY_TYPE, Format

#: Bytes that are searched.
_WITHIN_BYTES = 8192
_WIDE_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_SPACE = "\ufeff \t\r\n"
#: Text that may precede a page, and the beginning of one.
_IN_FRONT = re.compile(r"(?:<\?xml[^<>]{0,500}\?>|<!--(?:[^-]|-(?!->))*-->|\s)*")
_PAGE = re.compile(
    r"<(?:!doctype html|(?:html|head|body|meta|title|style|script|base|link|table|thead|tbody|tr|div|p|h[1-6]|center"
    r"|font|span|br|b|ul|ol)(?=[\s>/]))"
)
_HEADER = re.compile(r"([A-Za-z][\w-]{0,70}):(?:[ \t]|$)")
#: A header that marks a mail, one that marks it beside any other of a group, and that group.
_MIME, _CONTENT, _BESIDE = "mime-version", "content-type", {"from", "to", "subject", "date", "message-id", "received"}
_MAX_HEADERS = 200
_SHEETS = {"xls", "xlsx", "odt", "fodt"}
_SIGNS = "\t;,|"
#: Maximum and minimum number of lines that identify a table.
_MAX_LINES, _MIN_LINES = 20, 2


def format_of_text(named: Format, data: bytes) -> Format | None:
    """Return the format of a text that contradicts its name; None if only plain text is detected."""
    text = _beginning(data).lstrip(_SPACE)
    lower = text.lower()
    if lower.startswith("{\\rtf"):
        return BY_TYPE["rtf"]
    if _is_mail(text):
        return BY_TYPE["email"]
    in_front = _IN_FRONT.match(lower)
    if _PAGE.match(lower, in_front.end() if in_front else 0):
        return BY_TYPE["html"]
    if lower.startswith("<?xml"):
        return BY_TYPE["xml"]
    return BY_TYPE["csv"] if named.type in _SHEETS and _is_table(text) else None


def _beginning(data: bytes) -> str:
    head = data[:_WITHIN_BYTES]
    return head.decode(_WIDE_MARKS.get(head[:2], "utf-8"), "replace")


def _is_mail(text: str) -> bool:
    """Return whether a text begins with the headers of a mail, as web archives do."""
    names = set[str]()
    for line in text.split("\n")[:_MAX_HEADERS]:
        plain = line.rstrip("\r")
        header = _HEADER.match(plain)
        if header:
            names.add(header[1].lower())
        elif not plain.startswith((" ", "\t")):
            break
    return _MIME in names or (_CONTENT in names and not names.isdisjoint(_BESIDE))


def _is_table(text: str) -> bool:
    """Return whether the first lines have the same number of cells. The last line may be truncated."""
    lines = [line for line in text.splitlines()[:_MAX_LINES] if line.strip()]
    lines = lines[:-1] if len(text) >= _WITHIN_BYTES and len(lines) < _MAX_LINES else lines
    counts = ({line.count(sign) for line in lines} for sign in _SIGNS)
    return len(lines) >= _MIN_LINES and any(len(count) == 1 and count != {0} for count in counts)
