"""What JSON has that is written by hand: comments, and commas behind the last member."""

from __future__ import annotations

import re
from collections.abc import Iterator

# All of these search a text without escapes, so that a string is anything between two quotes.
#: A string, so that nothing in it is taken for anything else; one without an end goes to the text's, looked at once.
_STRING = r'"[^"]*"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[]}}])")
_CLOSED = re.compile(r'"[^"]*"')
_BY_HAND = re.compile(rf'{_CLOSED.pattern}|(?P<mark>//|/\*|,(?=\s*[]}}])|")')
_CHARACTER = re.compile(r"[^\n]")
#: What begins either, without the white space.
_MARKS = (b"//", b"/*", b",]", b",}")


def is_by_hand(text: str) -> bool:
    """Whether the text is no plain JSON, but would be without comments and commas behind the last member."""
    packed = text.encode(errors="replace").translate(None, b" \t\r\n")
    if not any(mark in packed for mark in _MARKS):
        return False
    return any(found["mark"] for found in _BY_HAND.finditer(_without_escapes(text)))


def plain(text: str) -> str:
    """The text with blanks in place of both; every other character stays where it is."""
    return _blanked(_blanked(text, _COMMENT), _LAST_COMMA)


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each comment."""
    return _spans(text, _COMMENT)


def strings(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each string that is closed, the quotes included."""
    return (found.span() for found in _CLOSED.finditer(_without_escapes(text)))


def _without_escapes(text: str) -> str:
    """The text with letters in place of escaped quotes and backslashes; every other character stays where it is.

    This takes no memory for each escape, as a pattern of strings with escapes would: `re` may have to give each back.
    """
    return text.replace(r"\\", "__").replace(r"\"", "__")


def _spans(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    return (found.span() for found in pattern.finditer(_without_escapes(text)) if text[found.start()] != '"')


def _blanked(text: str, pattern: re.Pattern[str]) -> str:
    parts, done = [], 0
    for start, end in _spans(text, pattern):
        parts += [text[done:start], _CHARACTER.sub(" ", text[start:end])]
        done = end
    return "".join([*parts, text[done:]])
