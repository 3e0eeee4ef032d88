"""Locates the value at an RFC 6901 pointer in a JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from schemas.errors import NotFound

_SPACE = re.compile(r"[ \t\n\r]*")

#: Skips numbers without converting them: Python rejects integers of more than 4,300 digits.
_DECODER = json.JSONDecoder(parse_int=len, parse_float=len)


def span(text: str, pointer: str) -> tuple[int, int]:
    """Start and end, in characters, of the value at a pointer in well-formed JSON, with its key if it has one.

    Among equal keys the last one counts. Raises `NotFound` if there is no such value.
    """
    if pointer and not pointer.startswith("/"):
        raise NotFound(f"The JSON pointer {pointer!r} does not begin with '/'; see RFC 6901.")
    start = value = _next(text, 0)
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = [(at, value_at) for names, at, value_at in _members(text, value) if key in names]
        if not found:
            raise NotFound(f"The file has no value at the JSON pointer {pointer!r}; name one that it has.")
        start, value = found[-1]
    return start, _DECODER.raw_decode(text, value)[1]


def _members(text: str, at: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Yield names, start, and value start of each member of the container that begins here; none for a scalar.

    A key has two names: decoded, and as spelled in the file. Pointers use the spelling for keys no database can hold.
    """
    if text[at] not in "{[":
        return
    name_at = _key if text[at] == "{" else _position
    number, at = 0, _next(text, at + 1)
    while text[at] not in "}]":
        names, value = name_at(text, at, number)
        yield names, at, value
        at = _next(text, _DECODER.raw_decode(text, value)[1])
        at, number = _next(text, at + 1) if text[at] == "," else at, number + 1


def _key(text: str, at: int, _number: int) -> tuple[tuple[str, ...], int]:
    key, end = _DECODER.raw_decode(text, at)
    return (key, text[at + 1 : end - 1]), _next(text, _next(text, end) + 1)


def _position(_text: str, at: int, number: int) -> tuple[tuple[str, ...], int]:
    return (str(number),), at


def _next(text: str, at: int) -> int:
    """The offset of the next character that is not white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at
