"""The headers of a download, and what makes one unnecessary."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from schemas.errors import RangeNotSatisfiable

#: Content types that are named. A browser shows or runs none of them as a page of this server.
SAFE_TYPES = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/msword",
        "application/pdf",
        "application/rtf",
        "application/toml",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/yaml",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/csv",
        "text/markdown",
        "text/plain",
    }
)
#: The content type of everything else.
ANY_TYPE = "application/octet-stream"

#: Slashes, and marks that change the direction of text, with which a name can look like another.
_MISLEADING = re.compile("[/\\\\\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: One range of bytes: from the first to the last, from the first on, or as many as stand last.
_RANGE = re.compile(r"bytes\s{0,9}=\s{0,9}(?!-\s*$)([0-9]{0,18})\s{0,9}-\s{0,9}([0-9]{0,18})", re.IGNORECASE)
#: Maximum characters of a `Range`, more than two numbers of 18 digits take.
_MAX_RANGE = 100
_ETAG = re.compile(r'(?:W/)?("[^"]*")')


def headers(name: str, content_type: str, etag: str, size: int, part: range | None = None) -> dict[str, str]:
    """The headers of a file that is saved, never shown, and that caches keep only after asking again."""
    sent = {} if part is None else {"Content-Range": f"bytes {part.start}-{part.stop - 1}/{size}"}
    return {
        "Content-Type": content_type if content_type in SAFE_TYPES else ANY_TYPE,
        "Content-Length": str(size if part is None else len(part)),
        "Accept-Ranges": "bytes",
        **sent,
        "Content-Disposition": disposition(name),
        "X-Content-Type-Options": "nosniff",
        **validators(etag),
    }


def validators(etag: str) -> dict[str, str]:
    """The headers that answers with and without the content share."""
    return {"ETag": etag, "Cache-Control": "private, no-cache"}


def disposition(name: str) -> str:
    """Ask to save the file under a name: in ASCII for old clients, and whole as of RFC 5987."""
    safe = "".join("_" if unicodedata.category(letter) == "Cc" else letter for letter in _MISLEADING.sub("_", name))
    safe = "_" if safe.strip(" .") == "" else safe
    plain = "".join(letter if letter.isascii() and letter not in '"%;' else "_" for letter in safe)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='', errors='replace')}"


def part(asked: str | None, if_range: str | None, etag: str, size: int) -> range | None:
    """The bytes that a `Range` asks for; None for all of them, if it asks for none, for several, or wrongly.

    With `If-Range` of another version all bytes are answered. Raises `RangeNotSatisfiable` if it begins after the end.
    """
    found = _RANGE.fullmatch(asked.strip()) if asked is not None and len(asked) <= _MAX_RANGE else None
    if found is None or (if_range is not None and if_range.strip() != etag):
        return None
    first, last = (int(number) if number else None for number in found.groups())
    if first is None:
        start, stop = max(0, size - (last or 0)), size
    else:
        start, stop = first, size if last is None else min(size, last + 1)
        if last is not None and last < first:
            return None
    if start >= size:
        raise RangeNotSatisfiable(size)
    return range(start, stop)


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Whether the caller already has the content, as of `If-None-Match`."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or etag in _ETAG.findall(if_none_match)
