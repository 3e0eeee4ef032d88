"""What JSON has that is written by hand: comments, and commas behind the last member."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A string, so that nothing in it is taken for anything else; one without an end goes to the text's, looked at once.
_STRING = r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*+[]}}])", re.DOTALL)
_CHARACTER = re.compile(r"[^\n]")
#: Plain JSON, and what of it may begin either, without the white space.
_PLAIN = re.compile(r'(?:[^"/,]++|"(?:[^"\\]++|\\.)*+"|,(?!\s*+[]}])|/(?![/*]))*+', re.DOTALL)
_MARKS = (b"//", b"/*", b",]", b",}")


def is_by_hand(text: str) -> bool:
    """Whether the text is no plain JSON, but would be without comments and commas behind the last member."""
    packed = text.encode(errors="replace").translate(None, b" \t\r\n")
    return any(mark in packed for mark in _MARKS) and not _PLAIN.fullmatch(text)


def plain(text: str) -> str:
    """The text with blanks in place of both; every other character stays where it is."""
    return _LAST_COMMA.sub(_blanked, _COMMENT.sub(_blanked, text))


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each comment."""
    return (found.span() for found in _COMMENT.finditer(text) if found[0].startswith("/"))


def _blanked(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else _CHARACTER.sub(" ", found[0])
