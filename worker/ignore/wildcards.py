"""Matches a name against a pattern with wildcards, as git's wildmatch does, in time linear in the name.

`str.find` finds plain text between two stars. Shift-and finds text with `?` or brackets: one number holds all places
where it may have begun. The text between two stars has a fixed length, so its first place is the best one, and no place
is tried twice.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

#: A star (None), a character, or a set of characters for `?` and brackets, with a bit for each byte.
Element = str | int | None

_ANY = (1 << 256) - 1


def _bits(characters: str) -> int:
    return sum(1 << ord(character) for character in set(characters))


def _range(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low)


#: Character classes as git defines them, which differs from C.
_CLASSES = {
    "alpha": _bits(string.ascii_letters),
    "digit": _bits(string.digits),
    "alnum": _bits(string.ascii_letters + string.digits),
    "lower": _bits(string.ascii_lowercase),
    "upper": _bits(string.ascii_uppercase),
    "xdigit": _bits(string.hexdigits),
    "space": _bits(" \t\n\r"),
    "blank": _bits(" \t"),
    "punct": _bits(string.punctuation),
    "cntrl": _range(0, 0x1F) | 1 << 0x7F,
    "graph": _range(0x21, 0x7E),
    "print": _range(0x20, 0x7E),
}


class UnreadableError(ValueError):
    """Raised for a pattern that git cannot parse. It matches nothing."""


@dataclass(frozen=True, slots=True)
class Wildcard:
    """Matches a name that begins with one text, ends with another, and contains others in order between them."""

    first: _Text
    between: tuple[_Text, ...]
    last: _Text
    shortest: int

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches. It has one character per byte."""
        stop = len(name) - len(self.last)
        if len(name) < self.shortest or not (_is_at(self.first, name, 0) and _is_at(self.last, name, stop)):
            return False
        position = len(self.first)
        for text in self.between:
            found = text.find(name, position, stop) if isinstance(text, Varying) else name.find(text, position, stop)
            if found < 0:
                return False
            position = found + len(text)
        return True


@dataclass(frozen=True, slots=True)
class Varying:
    """Matches text of a fixed length in which some characters may vary."""

    sets: tuple[int, ...]
    _places: dict[str, int] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.sets)

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches."""
        return len(name) == len(self.sets) and self.is_at(name, 0)

    def is_at(self, name: str, position: int) -> bool:
        """Return whether the name, which is long enough, has the text at a position."""
        here = name[position : position + len(self.sets)]
        return all(set_ >> ord(character) & 1 for set_, character in zip(self.sets, here, strict=True))

    def find(self, name: str, start: int, stop: int) -> int:
        """Return the first position of the text between two positions; -1 if there is none."""
        begun, end = 0, 1 << len(self.sets) - 1
        for position in range(start, stop):
            begun = (begun << 1 | 1) & self._places_of(name[position])
            if begun & end:
                return position + 1 - len(self.sets)
        return -1

    def _places_of(self, character: str) -> int:
        """Return the places of a character in the text, with a bit for each. Cached, because computing it is slow."""
        places = self._places.get(character)
        if places is None:
            code = ord(character)
            digits = "".join("1" if set_ >> code & 1 else "0" for set_ in reversed(self.sets))
            places = self._places[character] = int(digits, 2)
        return places


_Text = str | Varying


def _is_at(text: _Text, name: str, position: int) -> bool:
    return text.is_at(name, position) if isinstance(text, Varying) else name.startswith(text, position)


def matcher(elements: Sequence[Element]) -> str | Wildcard | Varying:
    """Return a matcher for a name: the name itself if nothing varies."""
    parts = [_text([*part]) for is_star, part in groupby(elements, lambda element: element is None) if not is_star]
    if None not in elements:
        return parts[0] if parts else ""
    first = "" if elements[0] is None else parts.pop(0)
    last = "" if elements[-1] is None else parts.pop()
    return Wildcard(first, tuple(parts), last, len(elements) - elements.count(None))


def edges(wild: Wildcard | Varying) -> tuple[str, str]:
    """Return the first and the last character of each matching name; "" if they vary."""
    first, last = (wild.first, wild.last) if isinstance(wild, Wildcard) else (wild, wild)
    return first[:1] if isinstance(first, str) else "", last[-1:] if isinstance(last, str) else ""


def name_matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a separate pattern, where `*` matches any text. An unparsable one is a name."""
    try:
        wanted = matcher([*elements_of(one_per_byte(pattern))])
    except UnreadableError:
        return pattern == name
    as_bytes = one_per_byte(name)
    return wanted == as_bytes if isinstance(wanted, str) else wanted.matches(as_bytes)


def one_per_byte(text: str) -> str:
    """Return one character per byte, as git compares bytes: `?` matches one byte of a non-ASCII letter."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:  # other lone surrogates occur in JSON, never on disk
        return text.encode("utf-8", "surrogatepass").decode("latin-1")


def elements_of(pattern: str) -> Iterator[Element]:
    """Yield the elements of a pattern. Raises `UnreadableError`."""
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        position += 1
        if sign == "*":
            yield None
        elif sign == "?":
            yield _ANY
        elif sign == "[":
            set_, position = _brackets(pattern, position)
            yield set_
        elif sign == "\\":
            yield _character(pattern, position)
            position += 1
        else:
            yield sign


def _text(elements: Sequence[Element]) -> _Text:
    characters = [element for element in elements if isinstance(element, str)]
    if len(characters) == len(elements):
        return "".join(characters)
    return Varying(tuple(1 << ord(each) if isinstance(each, str) else each or 0 for each in elements))


def _character(pattern: str, position: int) -> str:
    if position >= len(pattern):
        raise UnreadableError("the pattern ends within an escape or brackets")
    return pattern[position]


def _brackets(pattern: str, position: int) -> tuple[int, int]:
    """Return the characters that brackets match, from after the opening one, and the position after their end."""
    negates = _character(pattern, position) in "!^"
    position += negates
    characters, start = 0, position
    # a closing bracket that comes first is a character
    while position == start or _character(pattern, position) != "]":
        item, position = _item(pattern, position)
        characters |= item
    return _ANY ^ characters if negates else characters, position + 1


def _item(pattern: str, position: int) -> tuple[int, int]:
    """Return one item in brackets: a named class, a range, or a character, possibly escaped by a backslash."""
    if pattern.startswith("[:", position):
        end = pattern.find("]", position + 2)
        if end > position + 2 and pattern[end - 1] == ":":
            name = pattern[position + 2 : end - 1]
            if name not in _CLASSES:
                raise UnreadableError(f"[:{name}:] is not a character class")
            return _CLASSES[name], end + 1
    low, position = _unescaped(pattern, position)
    if not (pattern.startswith("-", position) and _character(pattern, position + 1) != "]"):
        return 1 << low, position
    high, position = _unescaped(pattern, position + 1)
    # git compares the first character before it sees the range, so a backwards range matches only that
    return _range(low, high) if low <= high else 1 << low, position


def _unescaped(pattern: str, position: int) -> tuple[int, int]:
    position += _character(pattern, position) == "\\"
    return ord(_character(pattern, position)), position + 1
