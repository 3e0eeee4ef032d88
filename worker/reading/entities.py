"""HTML entities in Markdown, tables and texts taken from web pages."""

from __future__ import annotations

import re
from functools import lru_cache
from html.entities import html5

from worker.tokens.invisible import WINDOWS

#: An ampersand that is escaped itself, several times perhaps.
AMPERSANDS = "&(?:(?:amp|#38|#[xX]26);){0,3}"
#: Letters whose entity people write without its end. Other names are seldom meant: `?a=1&copy=2`.
LETTERS = "[A-Za-z](?:uml|acute|grave|circ|tilde|cedil|slash|ring|[Ee]lig|zlig)"
_IN_WORD, _LETTER = r"(?<=[^\W\d_]&)", r"[^\W\d_]"
#: Numbers of Latin letters. Most numbers behind them are those of issues.
_LATIN = "#0{0,2}(?:[1-4][0-9]{2}|5[0-8][0-9]|59[01])"
_OPEN = (
    rf"{_IN_WORD}(?:{LETTERS}(?!\w{{0,30}}=)|{_LATIN}(?![0-9])|#[xX][c-fC-F][0-9A-Fa-f](?=[^\W\d_a-fA-F]))"
    rf"|(?<!\w&)(?:{LETTERS}(?=[a-z])(?!\w{{0,30}}=)|{_LATIN}(?={_LETTER}))"
)
#: An entity with its end, or a letter within a word without it.
ENTITY = re.compile(
    rf"(?:{AMPERSANDS}(?:#[0-9]{{1,7}}|#[xX][0-9A-Fa-f]{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});)|&(?:{_OPEN})"
)
_ESCAPED = re.compile(r"&(?:amp|#38|#[xX]26);(?=.)")
#: Characters that only mark where a word may break, or its direction.
_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060"))


# most texts have a few entities many times
@lru_cache(maxsize=1024)
def decoded_entity(entity: str) -> str | None:
    """Return the decoded text of an entity; None if there is none."""
    if entity[-1] != ";":
        letter = _decoded(f"{entity};") or ""
        return letter if letter.isalpha() and not letter.isascii() else None
    inner = entity
    while _ESCAPED.match(inner):
        inner = _ESCAPED.sub("&", inner, count=1)
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
