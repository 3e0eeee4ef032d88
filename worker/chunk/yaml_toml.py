"""Configuration text (YAML, TOML) is cut at lines; the keys or the section around a piece are its context."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.document import Document
from worker.chunk import lines
from worker.chunk.measure import Measure, Piece

#: A key without a value of its own, so that what is indented below it belongs to it.
_KEY = re.compile(
    r"[ ]*(?:- +)*(?P<key>[^\s#\[\]{}:-][^:\n]{0,200}?|\"[^\"\n]{1,200}\"):[ \t]*[|>]?[-+]?[ \t]*(?:#.*)?"
)
_SECTION = re.compile(r"\[{1,2}(?P<section>[^\[\]\n]{1,200})\]{1,2}[ \t]*(?:#.*)?")

#: A line that is no comment.
_FIRST = re.compile(r"^(?P<indent>[ ]*(?:- +)*)[^\s#]", re.MULTILINE)

#: Columns and names of the keys around a line, outermost first; a section's column is left of any.
_Around = list[tuple[int, str]]
_SECTION_COLUMN = -1

#: Characters before a line's text, at most, where a piece may end amid them.
_INDENT = 1000

#: Names in a context; it is cut to a length anyway.
_MOST = 16


def cut(measure: Measure, document: Document) -> Iterator[Piece]:
    """Pieces with the names of the keys or of the section they begin in."""
    text = measure.text
    seen, around, before, known, without, searched = 0, _Around(), 0, -1, -1, 0
    for start, end in lines.cut(measure, 0, len(text)):
        line = max(seen, text.rfind("\n", before, start) + 1)
        # pieces of one line are in the same place: to look at a long line for each of them takes quadratic time
        if line != known:
            first = _FIRST.search(text, _last_line(text, line, searched) if line == without else line, end)
            column = len(first["indent"]) if first else 0
            # keys at the column of an earlier piece may be around this one, too
            around = [] if first and _is_section(text, first) else _around(text[seen:line], column, around)
            known, without = (line, -1) if first else (-1, line)
        seen, before, searched = line, start, end
        yield Piece(start, end, tuple(name for _, name in around[-_MOST:]), title=document.title)


def _last_line(text: str, line: int, searched: int) -> int:
    """Where to look on for a line that is no comment: none begins from `line` up to the one that holds `searched`."""
    begin = text.rfind("\n", max(line, searched - _INDENT), searched) + 1
    return begin or searched


def _is_section(text: str, first: re.Match[str]) -> bool:
    """Whether a line begins a section, and so is in none."""
    end = text.find("\n", first.end())
    line = text[first.start() : end if end >= 0 else len(text)]
    return line.startswith("[") and _SECTION.fullmatch(line.rstrip()) is not None


def _around(above: str, column: int, before: _Around) -> _Around:
    """What is around a line at `column`: found in the lines `above` it, else what is around the first of them."""
    found: _Around = []
    for line in reversed(above.splitlines()):
        if line.startswith("[") and (section := _SECTION.fullmatch(line.rstrip())):
            return [(_SECTION_COLUMN, section["section"].strip()), *reversed(found)]
        at = _column(line)
        if at < column and line and (key := _KEY.fullmatch(line.rstrip())):
            found.append((at, key["key"].strip("\"'")))
            column = at
            if not column:
                return found[::-1]
    return [*(key for key in before if key[0] < column), *reversed(found)]


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))
