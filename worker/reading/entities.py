"""HTML entities in Markdown, tables and texts taken from web pages."""

from __future__ import annotations

import re
from functools import lru_cache
from html.entities import html5

from worker.tokens.invisible import WINDOWS

#: An entity with its end, perhaps escaped several times. One without an end is seldom meant: `?a=1&copy=2`.
ENTITY = re.compile(r"&(?:amp;){0,3}(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ESCAPED = "&amp;"
#: Characters that only mark where a word may break, or its direction.
_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060"))


# most texts have a few entities many times
@lru_cache(maxsize=1024)
def decoded_entity(entity: str) -> str | None:
    """Return the decoded text of an entity; None if there is none."""
    inner = entity
    while inner.startswith(_ESCAPED) and inner != _ESCAPED:
        inner = f"&{inner.removeprefix(_ESCAPED)}"
    read = _decoded(inner)
    return inner if read is None and inner != entity else read


def _decoded(entity: str) -> str | None:
    if not entity.startswith("&#"):
        known = html5.get(entity[1:])
        return None if known is None else known.translate(_UNSEEN)
    number = int(entity[3:-1], 16) if entity[2] in "xX" else int(entity[2:-1])
    try:
        # as browsers do
        character = WINDOWS.get(number) or chr(number)
    except (ValueError, OverflowError):
        return None
    return character.translate(_UNSEEN) if character.isprintable() or character in "\u00a0\u00ad\t\n" else None
