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
    """Return the span, in characters, of the value at a pointer in well-formed JSON, with its key if it has one.

    Among equal keys the last one counts. Raises `NotFound` if there is no such value.
    """
    if pointer and not pointer.startswith("/"):
        raise NotFound(f"The JSON pointer {pointer!r} does not begin with '/'; see RFC 6901.")
    start = value = _skip_space(text, 0)
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        members = [(member, member_value) for names, member, member_value in _members(text, value) if key in names]
        if not members:
            raise NotFound(f"The file has no value at the JSON pointer {pointer!r}; send one that exists.")
        start, value = members[-1]
    return start, _DECODER.raw_decode(text, value)[1]


def _members(text: str, container: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Yield names, offset, and offset of the value of each member of the container at an offset; none for a scalar.

    A key has two names: decoded, and as spelled in the file. Pointers use the spelling for keys no database can hold.
    """
    if text[container] not in "{[":
        return
    name_at = _object_key if text[container] == "{" else _array_index
    number, offset = 0, _skip_space(text, container + 1)
    while text[offset] not in "}]":
        names, value = name_at(text, offset, number)
        yield names, offset, value
        offset = _skip_space(text, _DECODER.raw_decode(text, value)[1])
        offset, number = _skip_space(text, offset + 1) if text[offset] == "," else offset, number + 1


def _object_key(text: str, offset: int, _number: int) -> tuple[tuple[str, ...], int]:
    key, end = _DECODER.raw_decode(text, offset)
    return (key, text[offset + 1 : end - 1]), _skip_space(text, _skip_space(text, end) + 1)


def _array_index(_text: str, offset: int, number: int) -> tuple[tuple[str, ...], int]:
    return (str(number),), offset


def _skip_space(text: str, offset: int) -> int:
    """Return the offset of the next character that is not white space."""
    space = _SPACE.match(text, offset)
    return space.end() if space else offset
