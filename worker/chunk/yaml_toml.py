"""Cuts configuration text (YAML, TOML) at lines. A piece's context is the keys or the section around it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from schemas.content.document import Document
from worker.chunk import lines
from worker.chunk.measure import ChunkSpan, Measure

#: A key without a value on its own line. The lines indented below belong to it.
_KEY = re.compile(
    r"[ ]*(?:- +)*(?P<key>[^\s#\[\]{}:-][^:\n]{0,200}?|\"[^\"\n]{1,200}\"):[ \t]*[|>]?[-+]?[ \t]*(?:#.*)?"
)
_SECTION = re.compile(r"\[{1,2}(?P<section>[^\[\]\n]{1,200})\]{1,2}[ \t]*(?:#.*)?")

#: A line that is not a comment.
_CONTENT_LINE = re.compile(r"^(?P<indent>[ ]*(?:- +)*)[^\s#]", re.MULTILINE)

#: Columns and names of the keys around a line, outermost first. A section counts as left of every column.
_EnclosingKeys = list[tuple[int, str]]
_SECTION_COLUMN = -1
#: Right of every line's column.
_ANY_COLUMN = sys.maxsize

#: A piece may end inside a line's indentation; at most this many characters of it are searched again.
_MAX_INDENT_CHARS = 1000

#: Maximum names in a context, which is also cut to a length later.
_MAX_NAMES = 16


def cut(measure: Measure, document: Document) -> Iterator[ChunkSpan]:
    """Yield pieces with the names of the keys or of the section that they start in."""
    text = measure.text
    seen, keys, previous_start, keyed_line, comment_line, searched = 0, _EnclosingKeys(), 0, -1, -1, 0
    for start, end in lines.cut(measure, 0, len(text)):
        line = max(seen, text.rfind("\n", previous_start, start) + 1)
        # pieces of one line share their keys: searching a long line again for each piece would take quadratic time
        if line != keyed_line:
            first = _CONTENT_LINE.search(text, _last_line(text, line, searched) if line == comment_line else line, end)
            # after a comment, what follows may stand at any column
            column = len(first["indent"]) if first else _ANY_COLUMN
            # keys left of an earlier piece's column may also be around this piece
            keys = [] if first and _is_section(text, first) else _enclosing_keys(text[seen:line], column, keys)
            keyed_line, comment_line = (line, -1) if first else (-1, line)
        seen, previous_start, searched = line, start, end
        # a comment may be about what is above it or below it, so it has only its section
        around = keys if line == keyed_line else [key for key in keys if key[0] == _SECTION_COLUMN]
        yield ChunkSpan(start, end, tuple(name for _, name in around[-_MAX_NAMES:]), title=document.title)


def _last_line(text: str, line: int, searched: int) -> int:
    """Where to resume the search for a line that is not a comment.

    No such line starts between `line` and the line that holds `searched`.
    """
    begin = text.rfind("\n", max(line, searched - _MAX_INDENT_CHARS), searched) + 1
    return begin or searched


def _is_section(text: str, content: re.Match[str]) -> bool:
    """Whether a line starts a section; it is then in no other section."""
    end = text.find("\n", content.end())
    line = text[content.start() : end if end >= 0 else len(text)]
    return line.startswith("[") and _SECTION.fullmatch(line.rstrip()) is not None


def _enclosing_keys(above: str, column: int, inherited: _EnclosingKeys) -> _EnclosingKeys:
    """The keys around a line at `column`.

    They come from the lines `above` it, then from `inherited`, the keys around the first of those lines.
    """
    keys: _EnclosingKeys = []
    for line in reversed(above.splitlines()):
        if line.startswith("[") and (section := _SECTION.fullmatch(line.rstrip())):
            return [(_SECTION_COLUMN, section["section"].strip()), *reversed(keys)]
        indent = _column(line)
        if indent < column and line and (key := _KEY.fullmatch(line.rstrip())):
            keys.append((indent, key["key"].strip("\"'")))
            column = indent
            if not column:
                return keys[::-1]
    return [*(key for key in inherited if key[0] < column), *reversed(keys)]


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))
