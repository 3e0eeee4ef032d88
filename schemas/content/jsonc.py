"""The two extensions that hand-written JSON has: comments and trailing commas."""

from __future__ import annotations

import re
from collections.abc import Iterator

# All patterns search a text without escapes, so that a string is anything between two quotes.
#: A string, so that its content is not mistaken for a comment or comma. An unclosed string runs to the text's end, and
#: is scanned only once.
_STRING = r'"[^"]*"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[]}}])")
_CLOSED = re.compile(r'"[^"]*"')
_BY_HAND = re.compile(rf'{_CLOSED.pattern}|(?P<mark>//|/\*|,(?=\s*[]}}])|")')
_CHARACTER = re.compile(r"[^\n]")
#: Closing brackets are one character here.
_CLOSERS = bytes.maketrans(b"}", b"]")


def is_by_hand(text: str) -> bool:
    """Whether the text is invalid JSON only because of comments or trailing commas."""
    packed = text.encode(errors="replace").translate(_CLOSERS, b" \t\r\n")
    # to search two characters takes a hundred times as long as to search one
    has_comment = b"/" in packed and (b"//" in packed or b"/*" in packed)
    if not has_comment and b",]" not in packed:
        return False
    return any(match["mark"] for match in _BY_HAND.finditer(_without_escapes(text)))


def plain(text: str) -> str:
    """The text with comments and trailing commas blanked; every other character stays in place."""
    return _blanked(_blanked(text, _COMMENT), _LAST_COMMA)


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each comment."""
    return _spans(text, _COMMENT)


def strings(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each closed string, including the quotes."""
    return (match.span() for match in _CLOSED.finditer(_without_escapes(text)))


def _without_escapes(text: str) -> str:
    """The text with letters in place of escaped quotes and backslashes; every other character stays in place.

    This takes no memory per escape. A pattern that matches escapes would, because `re` may have to backtrack over each.
    """
    return text.replace(r"\\", "__").replace(r"\"", "__")


def _spans(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    return (match.span() for match in pattern.finditer(_without_escapes(text)) if text[match.start()] != '"')


def _blanked(text: str, pattern: re.Pattern[str]) -> str:
    parts, done = [], 0
    for start, end in _spans(text, pattern):
        parts += [text[done:start], _CHARACTER.sub(" ", text[start:end])]
        done = end
    return "".join([*parts, text[done:]])
