"""The headers of a download, and what makes one unnecessary."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

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
_ETAG = re.compile(r'(?:W/)?("[^"]*")')


def headers(name: str, content_type: str, etag: str, size: int) -> dict[str, str]:
    """The headers of a file that is saved, never shown, and that caches keep only after asking again."""
    return {
        "Content-Type": content_type if content_type in SAFE_TYPES else ANY_TYPE,
        "Content-Length": str(size),
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


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Whether the caller already has the content, as of `If-None-Match`."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or etag in _ETAG.findall(if_none_match)
