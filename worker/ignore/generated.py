"""Text that a tool wrote and nobody reads, told by what is in it."""

from __future__ import annotations

import re

from schemas.status import Reason
from worker.formats import by_name

#: Bytes a line has on average in scripts and styles that were packed; people stay below a hundred.
_PACKED_LINE = 300
#: Shorter files may be one long line by hand.
_PACKED_FILE = 2_000
_PACKED_LANGUAGES = {"javascript", "css"}

#: Where generators write that they did: in a comment at the top.
_HEAD_BYTES, _HEAD_LINES = 8_000, 40
_COMMENT = (b"#", b"//", b"/*", b"*", b"--", b";", b"%", b'"', b"<!--", b"(*", b"{-")
_SAYS_SO = re.compile(
    rb"@generated\b|<auto-?generated|\bgenerated\b.*\bdo not (?:edit|modify|change)"
    rb"|\bdo not (?:edit|modify|change)\b.*\bgenerated\b",
    re.IGNORECASE,
)


def by_a_tool(name: str, data: bytes) -> Reason | None:
    """`minified` or `generated` for code that no person wrote, by the length of its lines or what its head says."""
    format_, language = by_name.of(name)
    if format_.type != "code":
        # documents may speak of such files, and data is as it is
        return None
    if (
        language in _PACKED_LANGUAGES
        and len(data) >= _PACKED_FILE
        and len(data) > _PACKED_LINE * (data.count(b"\n") + 1)
    ):
        return Reason.MINIFIED
    head = data[:_HEAD_BYTES].splitlines()[:_HEAD_LINES]
    comments = (line for line in map(bytes.strip, head) if line.startswith(_COMMENT))
    return Reason.GENERATED if any(map(_SAYS_SO.search, comments)) else None
