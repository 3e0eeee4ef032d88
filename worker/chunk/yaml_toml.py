"""Cuts configuration text (YAML, TOML) at lines. A piece's context is the keys or the section around it."""

from __future__ import annotations

import re
import sys
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from schemas.content.document import Document
from worker.chunk import lines
from worker.chunk.measure import ChunkSpan, Measure

#: A key without a value on its own line. The lines indented below belong to it.
_KEY = re.compile(
    r"[ ]*(?:- +)*(?P<key>[^\s#\[\]{}:-][^:\n]{0,200}?|\"[^\"\n]{1,200}\"):[ \t]*(?:(?:[|>][-+]?|[-+])[ \t]*)?(?:#.*)?"
)
_SECTION = re.compile(r"\[{1,2}(?P<section>[^\[\]\n]{1,200})\]{1,2}[ \t]*(?:#.*)?")

_STRING = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")

#: The beginning of a TOML string or comment. Each may contain the signs of the others.
_OPENING = re.compile(r"#|\"{3}|'{3}|[\"']")
#: The end of each, and escapes before it.
_ENDS = {
    "#": re.compile(r"(?P<end>\n)"),
    "'": re.compile(r"(?P<end>['\n])"),
    "'''": re.compile(r"(?P<end>'{3})"),
    '"': re.compile(r"\\.|(?P<end>[\"\n])", re.DOTALL),
    '"""': re.compile(r"\\.|(?P<end>\"{3})", re.DOTALL),
}

#: A line that is not a comment.
_YAML_LINE = re.compile(r"^(?P<indent>[ ]*(?:- +)*)[^\s#]", re.MULTILINE)
_TOML_LINE = re.compile(r"^(?P<indent>[ \t]*)[^\s#]", re.MULTILINE)

#: Columns and names of the keys around a line, outermost first. A section counts as left of every column.
_EnclosingKeys = list[tuple[int, str]]
_SECTION_COLUMN = -1
#: Greater than every line's column.
_ANY_COLUMN = sys.maxsize

#: A piece may end inside a line's indentation; at most this many characters of it are searched again.
_MAX_INDENT_CHARS = 1000

#: Maximum characters above a line in brackets that are searched for an array around it.
_MAX_ARRAY_CHARS = 1000

#: Maximum names in a context, which is also cut to a length later.
_MAX_NAMES = 16


def cut(measure: Measure, document: Document) -> Iterator[ChunkSpan]:
    """Yield pieces with the names of the keys or of the section that they start in."""
    text, config = measure.text, _ConfigText.of(measure.text, is_toml=document.type == "toml")
    seen, keys, previous_start, keyed_line, comment_line, searched = 0, _EnclosingKeys(), 0, -1, -1, 0
    for start, end in lines.cut(measure, 0, len(text)):
        line = max(seen, text.rfind("\n", previous_start, start) + 1)
        # pieces of one line share their keys: searching a long line again for each piece would take quadratic time
        if line != keyed_line:
            first = config.content_line(_last_line(text, line, searched) if line == comment_line else line, end)
            # after a comment, the next content may be at any column
            column = len(first["indent"]) if first else _ANY_COLUMN
            # keys left of an earlier piece's column may also be around this piece
            keys = [] if first and config.is_section(first) else config.enclosing_keys(seen, line, column, keys)
            keyed_line, comment_line = (line, -1) if first else (-1, line)
        seen, previous_start, searched = line, start, end
        # a comment may belong to the lines above or below it, so it has only its section
        around = keys if line == keyed_line else [key for key in keys if key[0] == _SECTION_COLUMN]
        yield ChunkSpan(start, end, tuple(name for _, name in around[-_MAX_NAMES:]), title=document.title)


def _last_line(text: str, line: int, searched: int) -> int:
    """Return the position at which to resume the search for a line that is not a comment.

    No such line starts between `line` and the line that holds `searched`.
    """
    begin = text.rfind("\n", max(line, searched - _MAX_INDENT_CHARS), searched) + 1
    return begin or searched


def _long_strings(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the multi-line strings of a TOML text. An unterminated one takes all the rest."""
    end = 0
    while opening := _OPENING.search(text, end):
        found = _ENDS[opening[0]].finditer(text, opening.end())
        end = next((match.end() for match in found if match["end"]), len(text))
        if len(opening[0]) > 1:
            yield opening.start(), end


@dataclass(frozen=True, slots=True)
class _ConfigText:
    """A whole text. TOML, unlike YAML, may indent its sections."""

    text: str
    is_toml: bool
    #: The starts and ends of the multi-line strings of a TOML text.
    strings: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, *, is_toml: bool) -> _ConfigText:
        """Return a text with its strings found."""
        has_strings = is_toml and ('"""' in text or "'''" in text)
        return cls(text, is_toml, list(_long_strings(text)) if has_strings else [])

    def content_line(self, begin: int, end: int) -> re.Match[str] | None:
        """Return the first line between two places that is not a comment."""
        return (_TOML_LINE if self.is_toml else _YAML_LINE).search(self.text, begin, end)

    def is_section(self, content: re.Match[str]) -> bool:
        """Return whether a line starts a section; it is then in no other section."""
        end = self.text.find("\n", content.end())
        line = self.text[content.start() : end if end >= 0 else len(self.text)]
        return self._section(content.start(), line) is not None

    def enclosing_keys(self, begin: int, end: int, column: int, inherited: _EnclosingKeys) -> _EnclosingKeys:
        """Return the keys around the line that starts at `end`, at `column`.

        They come from the lines between `begin` and `end`, then from `inherited`, the keys around the first of these
        lines.
        """
        keys, start = _EnclosingKeys(), end
        for line in reversed(self.text[begin:end].splitlines(keepends=True)):
            start -= len(line)
            section = self._section(start, line)
            if section is not None:
                return [(_SECTION_COLUMN, section), *reversed(keys)]
            indent = _column(line)
            if indent < column and (key := _KEY.fullmatch(line.rstrip())):
                keys.append((indent, key["key"].strip("\"'")))
                column = indent
                if not column:
                    return keys[::-1]
        return [*(key for key in inherited if key[0] < column), *reversed(keys)]

    def _section(self, start: int, line: str) -> str | None:
        """Return the name of the section that a line starts, if it does."""
        header = line.strip() if self.is_toml else line.rstrip()
        found = _SECTION.fullmatch(header) if header.startswith("[") else None
        is_value = found and self.is_toml and (self._is_in_string(start) or self._is_in_array(start))
        return None if found is None or is_value else found["section"].strip()

    def _is_in_string(self, place: int) -> bool:
        before = bisect(self.strings, place, key=itemgetter(0))
        return before > 0 and place < self.strings[before - 1][1]

    def _is_in_array(self, start: int) -> bool:
        """Return whether the line before `start` that is not a comment ends within an array."""
        for line in reversed(self.text[max(0, start - _MAX_ARRAY_CHARS) : start].splitlines()):
            # a string may contain a comment sign
            code = _STRING.sub("''", line).partition("#")[0].rstrip()
            if code:
                return code.endswith((",", "["))
        return False


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))
