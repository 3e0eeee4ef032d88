"""Metadata that files and buckets state in text: front matter, and values whose types a tool declares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from schemas.content.metadata import Value, checked_value, usable_metadata

#: Ends the name of a file that holds the metadata of another one: `report.pdf.meta.json` has that of `report.pdf`.
SIDECAR = ".meta.json"
#: Maximum bytes of such a file.
MAX_SIDECAR_BYTES = 65_536

#: A key at the beginning of a line, and what follows it.
_KEY = r"([\"']?)(?P<key>\w[\w.-]{0,63})\1[ \t]*"
_YAML = re.compile(_KEY + r":(?=[ \t]|$)[ \t]*(?P<rest>.*)")
_TOML = re.compile(_KEY + r"=[ \t]*(?P<rest>.*)")
#: Up to the end of a text of several lines in TOML, by how it begins.
_ENDS = {
    '"""': re.compile(r'\A(?:[^"\\]|\\.|"(?!""))*"""'),
    "'''": re.compile(r"\A(?:[^']|'(?!''))*'''"),
}
#: Strings, comments, and the brackets that are in neither.
_SIGNS = re.compile(r"\"(?:[^\"\\]|\\.?)*(?:\"|$)|'[^']*(?:'|$)|#.*|[\[\]]")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'"
_QUOTED = re.compile(rf"\A(?:{_STRING})")
#: A string between quotation marks up to a comma, or anything else up to one.
_LISTED = re.compile(rf"\s*((?:{_STRING})(?=\s*(?:,|$))|[^,]*)\s*(?:,|$)")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_NUMBER = re.compile(r"[-+]?[0-9]{1,19}\.[0-9]{1,19}(?:[eE][-+]?[0-9]{1,3})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?")
_WORDS: dict[str, Value | None] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NOTHING = frozenset(word for word, value in _WORDS.items() if value is None)
_QUOTES, _INDENTS = frozenset("\"'"), frozenset(" \t")
#: Begins something else than a value on one line: text in blocks, mappings, anchors, aliases and tags.
_OTHERS = frozenset("|>{&*!@`%")


def is_sidecar(path: str) -> bool:
    """Whether a file holds the metadata of another one, by its path."""
    name = path.rpartition("/")[2]
    return name.endswith(SIDECAR) and name != SIDECAR


def scalar(text: str) -> Value | None:
    """Parse a text as a number, a boolean or a time; other texts stay as they are. None for no value.

    As in YAML, a time without a zone is one of UTC. A day is its beginning. A value that
    metadata cannot have stays a text.
    """
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _DAY.fullmatch(text):
        return f"{text}T00:00:00Z"
    if _TIME.fullmatch(text):
        return f"{text.replace(' ', 'T')}Z"
    with suppress(ValueError):
        if _INTEGER.fullmatch(text):
            return checked_value(int(text))
        if _NUMBER.fullmatch(text):
            return checked_value(float(text))
    return text


def named_values(stated: Iterable[tuple[str, str]]) -> dict[str, Value]:
    """Texts by their names. A name that occurs several times has a list; `:` in a name becomes `.`."""
    texts: dict[str, list[str]] = {}
    for name, text in stated:
        texts.setdefault(name.strip().replace(":", "."), []).append(text.strip())
    return usable_metadata((name, values if len(values) > 1 else values[0] or None) for name, values in texts.items())


def front_matter(text: str) -> dict[str, Value]:
    """Texts, and lists of them, of the keys at the beginnings of lines: in TOML after `+++`, else in YAML.

    Nested values and text of several lines are left out.
    """
    lines = text.splitlines()
    return usable_metadata(_of_toml(lines) if text.startswith("+++") else _of_yaml(lines))


def _of_toml(lines: list[str]) -> Iterator[tuple[str, Value | None]]:
    end: re.Pattern[str] | None = None
    following = iter(lines)
    for line in following:
        if end is not None:
            end = None if end.match(line) else end
        elif line.startswith("["):
            # tables are nested
            return
        elif entry := _TOML.fullmatch(line):
            rest = entry["rest"].rstrip()
            end = _ENDS.get(rest[:3])
            if rest.startswith("["):
                yield entry["key"], _flow(_array(rest, following))
            elif end is None:
                yield entry["key"], _value(rest)
            elif end.match(rest[3:]):
                end = None


def _array(line: str, following: Iterator[str]) -> str:
    """An array that begins with a line and may go on in the following ones, on one line; "" if it does not end."""
    parts, depth = list[str](), 0
    for each in chain([line], following):
        signs = [sign[0] for sign in _SIGNS.finditer(each)]
        depth += signs.count("[") - signs.count("]")
        parts.append(_SIGNS.sub(lambda sign: "" if sign[0].startswith("#") else sign[0], each).strip())
        if depth <= 0:
            return " ".join(filter(None, parts))
    return ""


def _of_yaml(lines: list[str]) -> Iterator[tuple[str, Value | None]]:
    for number, line in enumerate(lines):
        if entry := _YAML.fullmatch(line):
            rest = entry["rest"].rstrip()
            below = _below(lines, number)
            if _without_comment(rest):
                # an indented line goes on with the value
                yield entry["key"], None if next(below, "")[:1] in _INDENTS else _value(rest)
            else:
                yield entry["key"], _items(below)


def _below(lines: list[str], number: int) -> Iterator[str]:
    """The lines after one, without empty ones and comments."""
    return (lines[each] for each in range(number + 1, len(lines)) if _without_comment(lines[each]))


def _items(lines: Iterator[str]) -> list[str] | None:
    """A list with one item on each line; None if there is none, or if it has more than that."""
    items: list[str] = []
    for line in lines:
        item = _ITEM.fullmatch(line)
        if item is None:
            return None if line[0] in _INDENTS else items or None
        items.append(_string(item[1]))
    return items or None


def _flow(text: str) -> list[str] | None:
    """A list on one line; None if it does not end there."""
    text = text if text.endswith("]") else _without_comment(text)
    if not text.endswith("]"):
        return None
    inner = text[1:-1]
    found = [_string(match[1]) for match in _LISTED.finditer(inner) if match[1].strip()]
    return None if any(each[:1] in ("[", "{") for each in found) else found


def _value(text: str) -> Value | None:
    """The value that follows a key on its line."""
    if text.startswith("["):
        return _flow(text)
    if text[:1] in _QUOTES:
        return _string(text)
    plain = _without_comment(text)
    return None if plain[:1] in _OTHERS or plain.lower() in _NOTHING else plain


def _string(text: str) -> str:
    """A text on one line without its quotation marks and what follows them."""
    text = text.strip()
    quoted = _QUOTED.match(text)
    if quoted is None:
        return _without_comment(text)
    if text[0] == "'":
        return quoted[0][1:-1].replace("''", "'")
    with suppress(ValueError):
        return str(json.loads(quoted[0]))
    return quoted[0][1:-1]


def _without_comment(text: str) -> str:
    return _COMMENT.sub("", text, count=1).rstrip()
