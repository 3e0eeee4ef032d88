"""Metadata that files and buckets state in text: front matter, and values whose types nobody declares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from schemas.content.metadata import Value, usable_metadata

#: Ends the name of a file that holds the metadata of another one: `report.pdf.meta.json` has that of `report.pdf`.
SIDECAR = ".meta.json"
#: Maximum bytes of such a file.
MAX_SIDECAR_BYTES = 65_536

#: A key at the beginning of a line, in YAML or TOML, and what follows it.
_ENTRY = re.compile(r"[\"']?([A-Za-z_][\w.-]{0,63})[\"']?[ \t]*(?::(?=[ \t]|$)|=)[ \t]*(.*)")
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
#: Begins what is no value on one line: text in blocks, mappings, anchors, aliases and tags.
_OTHERS = frozenset("|>{&*!@`%")


def is_sidecar(path: str) -> bool:
    """Whether a file holds the metadata of another one, by its path."""
    name = path.rpartition("/")[2]
    return name.endswith(SIDECAR) and name != SIDECAR


def scalar(text: str) -> Value | None:
    """What a text without quotation marks is: a number, a boolean, a time or a string; None for no value.

    As in YAML, a time without a zone is one of UTC. A day is its beginning.
    """
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if _DAY.fullmatch(text):
        return f"{text}T00:00:00Z"
    return f"{text.replace(' ', 'T')}Z" if _TIME.fullmatch(text) else text


def named_values(stated: Iterable[tuple[str, str]]) -> dict[str, Value]:
    """Metadata from names with text. A name that occurs several times has a list; `:` in a name becomes `.`."""
    texts: dict[str, list[str]] = {}
    for name, text in stated:
        texts.setdefault(name.strip().replace(":", "."), []).append(text.strip())
    return usable_metadata((name, values if len(values) > 1 else scalar(values[0])) for name, values in texts.items())


def front_matter(text: str) -> dict[str, Value]:
    """The values at the beginnings of lines, in YAML or TOML: those on one line, and lists of them.

    Nested values, and text in blocks, are left out.
    """
    return usable_metadata(_entries(text.splitlines()))


def _entries(lines: list[str]) -> Iterator[tuple[str, Value | None]]:
    for number, line in enumerate(lines):
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            # the tables of TOML are nested
            if line.startswith("["):
                return
            continue
        key, rest = entry[1], entry[2].rstrip()
        if rest.startswith("["):
            yield key, _flow(rest)
        elif _without_comment(rest):
            yield key, _value(rest)
        else:
            items = list(_items(lines, number + 1))
            yield key, items or None


def _items(lines: list[str], start: int) -> Iterator[str]:
    """The list below a key, one item on each line."""
    for number in range(start, len(lines)):
        item = _ITEM.fullmatch(lines[number])
        if item is None:
            return
        yield _string(item[1])


def _flow(text: str) -> list[str] | None:
    """A list on one line; None if it does not end there."""
    text = text if text.endswith("]") else _without_comment(text)
    if not text.endswith("]"):
        return None
    inner = text[1:-1]
    found = [_string(match[1]) for match in _LISTED.finditer(inner) if match[1].strip()]
    return None if any(each[:1] in ("[", "{") for each in found) else found


def _value(text: str) -> Value | None:
    if text[0] in "\"'":
        return _string(text)
    return None if text[0] in _OTHERS else scalar(_without_comment(text))


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
