"""Changes one entry in the text of a configuration file: JSON with comments, or TOML. All other bytes stay as they are.

Each change is checked: the text after it means what the text before it meant, but for the entry.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: What describes a server to an agent.
Entry = dict[str, Any]
#: Characters of a file that is changed.
MAX_CHARACTERS = 10_000_000
#: What JSON with comments consists of. Each alternative begins with other characters, so time is linear.
_TOKEN = re.compile(
    r"[\s\ufeff]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|\"(?:[^\"\\]|\\.)*\"|[{}\[\],:]|[^\s\"/{}\[\],:]+", re.DOTALL
)
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


class Unchangeable(Exception):
    """The text cannot be changed safely."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object: where its key starts, and where its value is."""

    key: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """An object: where its braces are, and its members."""

    start: int
    end: int
    members: list[_Member]

    def member(self, key: str) -> _Member | None:
        """The last member of that name: the one that counts."""
        return next((each for each in reversed(self.members) if each.key == key), None)


def json_with(text: str, section: str, name: str, entry: Entry | None) -> str:
    """The text of a JSON file whose object `section` has the entry `name`, or none. Raises `Unchangeable`."""
    if not text.strip("\ufeff \t\r\n"):
        return text if entry is None else json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    return _checked(
        text, lambda: _json_changed(text, section, name, entry), _parse_relaxed_json, (section, name), entry
    )


def toml_with(text: str, section: str, name: str, entry: Entry | None) -> str:
    """The same for a TOML file with the table `section.name`."""
    return _checked(
        text, lambda: _toml_changed(text, f"{section}.{name}", entry), tomllib.loads, (section, name), entry
    )


def _checked(
    before: str, change: Callable[[], str], meant: Callable[[str], Any], place: tuple[str, str], entry: Entry | None
) -> str:
    """The text after a change, which is checked: nothing else means anything else."""
    section, name = place
    try:
        expected = meant(before)
        servers = expected.get(section, {}) if isinstance(expected, dict) else None
        if not isinstance(servers, dict):
            raise Unchangeable
        if servers.get(name) == entry:
            return before
        after = change()
        found = meant(after)
    except (ValueError, RecursionError) as error:
        raise Unchangeable from error
    others = {key: value for key, value in servers.items() if key != name}
    if found.get(section, {}) != (others if entry is None else {**others, name: entry}):
        raise Unchangeable
    if _without(found, section) != _without(expected, section):
        raise Unchangeable
    return after


def _without(config: dict[str, Any], section: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != section}


def _toml_changed(text: str, table: str, entry: Entry | None) -> str:
    bounds = [match.start() for match in _HEADER.finditer(text)] + [len(text)]
    parts = [text[: bounds[0]], *(text[start:end] for start, end in pairwise(bounds))]
    kept = "".join(part for part in parts if not _is_of(part, table))
    if entry is None:
        return kept[:-1] if kept.endswith("\n\n") else kept
    if kept.strip() and not kept.endswith("\n\n"):
        kept += "\n" if kept.endswith("\n") else "\n\n"
    return f"{kept}[{table}]\n{_toml_lines(entry)}"


def _is_of(part: str, table: str) -> bool:
    header = part.strip().partition("]")[0].lstrip("[").strip()
    return header == table or header.startswith(f"{table}.")


def _toml_lines(entry: Entry) -> str:
    tables = {key: value for key, value in entry.items() if isinstance(value, dict)}
    lines = [f"{key} = {_toml(value)}\n" for key, value in entry.items() if key not in tables]
    for key, table in tables.items():
        inner = ", ".join(f"{name} = {_toml(value)}" for name, value in table.items())
        lines.append(f"{key} = {{ {inner} }}\n")
    return "".join(lines)


def _toml(value: Any) -> str:
    # strings and lists of strings look the same in JSON, but for characters that JSON need not escape
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _json_changed(text: str, section: str, name: str, entry: Entry | None) -> str:
    top = _object(text, 0)
    servers = top.member(section)
    if servers is None:
        return text if entry is None else _inserted(text, top, section, {name: entry})
    inner = _object(text, servers.value)
    present = inner.member(name)
    if entry is None:
        # without it the section would be empty
        within, member = (inner, present) if len(inner.members) > 1 else (top, servers)
        return text if present is None or member is None else _removed(text, within, member)
    if present is None:
        return _inserted(text, inner, name, entry)
    return text[: present.value] + _indented(entry, _indent_at(text, present.start), text) + text[present.end :]


def _inserted(text: str, into: _Object, key: str, value: Entry) -> str:
    """The text with a first member in an object."""
    line = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, into.start)
    inner = _indent_at(text, into.members[0].start) if into.members else ""
    if len(inner) <= len(outer):
        inner = f"{outer}  "
    member = f"{line}{inner}{json.dumps(key)}: {_indented(value, inner, text)}"
    rest = text[into.start + 1 :]
    if into.members:
        return f"{text[: into.start + 1]}{member},{rest}"
    is_blank = not text[into.start + 1 : into.end].strip()
    rest = text[into.end :] if is_blank else rest
    return f"{text[: into.start + 1]}{member}{line + outer if is_blank else ''}{rest}"


def _removed(text: str, within: _Object, member: _Member) -> str:
    tokens = [token for token in _tokens(text[member.end : within.end + 1]) if not _is_blank(token.text)]
    start = len(text[: member.start].rstrip(" \t\r\n"))
    if tokens[0].text == ",":
        return text[:start] + text[member.end + tokens[0].end :]
    # the last one: the comma before it goes too
    index = within.members.index(member)
    if index:
        before = within.members[index - 1].end
        comma = next(token for token in _tokens(text[before : member.start]) if token.text == ",")
        return text[: before + comma.start] + text[before + comma.end : start] + text[member.end :]
    return text[:start] + text[member.end :]


def _indented(value: Entry, indent: str, text: str) -> str:
    line = "\r\n" if "\r\n" in text else "\n"
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"{line}{indent}")


def _indent_at(text: str, place: int) -> str:
    """The blanks before what stands first in the line of a place."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of JSON with comments. Raises `Unchangeable` if the text is anything else."""
    if len(text) > MAX_CHARACTERS:
        raise Unchangeable
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unchangeable
        yield _Token(match[0], match.start(), match.end())
        place = match.end()


def _is_blank(text: str) -> bool:
    return text.startswith(("//", "/*")) or not text.strip("\ufeff \t\r\n")


def _object(text: str, place: int) -> _Object:
    """The object that begins at a place, or after blanks and comments. Raises `Unchangeable` if none does."""
    depth, start, key, members = 0, -1, None, list[_Member]()
    value = end = 0
    for token in _tokens(text[place:]):
        if _is_blank(token.text):
            continue
        if start < 0:
            if token.text != "{":
                raise Unchangeable
            start, depth = place + token.start, 1
            continue
        closes = token.text in {"}", "]"}
        if depth == 1 and (closes or token.text == ",") and key is not None:
            members.append(_Member(str(json.loads(key.text)), place + key.start, value, end))
            key = None
        depth += (token.text in {"{", "["}) - closes
        if depth == 0:
            return _Object(start, place + token.start, members)
        if depth == 1 and key is None and token.text.startswith('"'):
            key, value = token, 0
        elif key is not None and token.text != ":":
            value = value or place + token.start
        end = place + token.end
    raise Unchangeable


def _parse_relaxed_json(text: str) -> Any:
    """Parse JSON with comments. A comma may precede a closing bracket."""
    pieces: list[str] = []
    for token in _tokens(text):
        if _is_blank(token.text):
            continue
        if token.text in {"}", "]"} and pieces and pieces[-1] == ",":
            pieces.pop()
        pieces.append(token.text)
    return json.loads("".join(pieces))
