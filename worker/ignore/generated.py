"""Detects, by content, text that a tool wrote for machines rather than people."""

from __future__ import annotations

import re

from schemas.status import Reason
from worker.formats.detect import Detected

#: Average bytes per line above which scripts and styles count as minified. Code by people stays below a hundred.
_PACKED_LINE = 300
#: Shorter files may be one long line written by hand.
_PACKED_FILE = 2_000
_PACKED_LANGUAGES = {"javascript", "css"}

#: Generators leave their notice in a comment at the top.
_HEAD_BYTES, _HEAD_LINES = 8_000, 40
_COMMENT = (b"#", b"//", b"/*", b"*", b"--", b";", b"%", b'"', b"<!--", b"(*", b"{-")
_SAYS_SO = re.compile(
    rb"@generated\b|<auto-?generated|\bgenerated\b.*\bdo not (?:edit|modify|change)"
    rb"|\bdo not (?:edit|modify|change)\b.*\bgenerated\b",
    re.IGNORECASE,
)


def by_a_tool(file: Detected, data: bytes) -> Reason | None:
    """`minified` or `generated` for code that a tool wrote, judged by its line lengths or by a notice at its top."""
    if file.language is None:
        # documents may mention such notices, and data is indexed as it is
        return None
    if (
        file.language in _PACKED_LANGUAGES
        and len(data) >= _PACKED_FILE
        and len(data) > _PACKED_LINE * (data.count(b"\n") + 1)
    ):
        return Reason.MINIFIED
    head = data[:_HEAD_BYTES].splitlines()[:_HEAD_LINES]
    comments = (line for line in map(bytes.strip, head) if line.startswith(_COMMENT))
    return Reason.GENERATED if any(map(_SAYS_SO.search, comments)) else None
