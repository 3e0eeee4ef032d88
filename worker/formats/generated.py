"""Detects, by content, text that a tool wrote for machines rather than people."""

from __future__ import annotations

import re

from schemas.reason import Reason
from worker.formats.detect import Detected

#: Average bytes per line above which scripts and styles count as minified. Handwritten code stays below a hundred.
_MINIFIED_LINE_BYTES = 300
#: Shorter files may be one long line written by hand.
_MINIFIED_FILE_BYTES = 2_000
_MINIFIED_LANGUAGES = {"javascript", "css"}

#: Generators leave their notice in a comment at the top.
_HEAD_BYTES = 8_000
_HEAD_LINES = 40
_COMMENT_STARTS = (b"#", b"//", b"/*", b"*", b"--", b";", b"%", b'"', b"<!--", b"(*", b"{-")
_NOTICE = re.compile(
    rb"@generated\b|<auto-?generated|\bgenerated\b.*\bdo not (?:edit|modify|change)"
    rb"|\bdo not (?:edit|modify|change)\b.*\bgenerated\b",
    re.IGNORECASE,
)


def generated_reason(file: Detected, data: bytes) -> Reason | None:
    """Return `minified` or `generated` for code that a tool wrote, by its line lengths or a notice at its top."""
    if file.language is None:
        # documents may mention such notices, and data is always indexed
        return None
    if (
        file.language in _MINIFIED_LANGUAGES
        and len(data) >= _MINIFIED_FILE_BYTES
        and len(data) > _MINIFIED_LINE_BYTES * (data.count(b"\n") + 1)
    ):
        return Reason.MINIFIED
    head = data[:_HEAD_BYTES].splitlines()[:_HEAD_LINES]
    comments = (line for line in map(bytes.strip, head) if line.startswith(_COMMENT_STARTS))
    return Reason.GENERATED if any(map(_NOTICE.search, comments)) else None
