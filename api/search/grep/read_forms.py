"""The second try of a grep: lines that match as they are read, without escapes, accents and what nobody sees.

Only lines that are read otherwise are searched again. A hit is the line of the file, at the place that matches there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from operator import attrgetter

import numpy as np

from api.search.grep.lines import MatchedLine, matching_lines
from api.search.grep.pattern import Pattern
from worker.reading import ReadText, Way, full
from worker.reading.edits import Edit
from worker.tokens.invisible import ANY_OTHER, SEVERAL
from worker.tokens.normal_forms import normalized


def lines_as_read(text: bytes, type_: str | None, pattern: Pattern, check: Callable[[], None]) -> Iterator[MatchedLine]:
    """Yield the lines of a UTF-8 text that match as they are written, or else as they are read, in order.

    `type_` says how the text is read. `check` may raise to end the search.
    """
    written = matching_lines(text, pattern, check)
    decoded = text.decode(errors="replace")
    last = 0
    for line in merge(written, _read_otherwise(decoded, type_, pattern, check), key=_NUMBER):
        if line.number > last:
            yield line
            last = line.last_number


def ripgrep_pattern(literal: str | None, way: Way) -> Sequence[str]:
    """The arguments with which rg finds the files where something may match as it is read.

    A `literal` may be written with escapes for some of its characters, and with what nobody sees between them. Its
    beginning selects the files: each character takes a kilobyte of the pattern.
    """
    if literal is None or not literal.isprintable():
        return ["--", f"{way.mark}|{ANY_OTHER}"]
    unit = rf"{way.unit}|{ANY_OTHER}"
    characters = (f"(?:{_escaped(character)}|{unit})" for character in literal[:_MAX_LITERAL])
    found = f"(?:{unit}|\\-)*".join(characters)
    return ["--ignore-case", "--", "|".join(filter(None, (found, SEVERAL, way.anything)))]


def _escaped(character: str) -> str:
    """Return the pattern of a character, composed or with separate accents."""
    forms = dict.fromkeys((character, normalized("NFD", character)))
    return "|".join("".join(rf"\x{{{ord(sign):x}}}" for sign in form) for form in forms)


_NUMBER = attrgetter("number")
#: Characters that rg looks for in all their spellings. It takes a tenth of a second for ten of them.
_MAX_LITERAL = 10
#: Edits whose lines are searched together. Each takes some hundred bytes.
BATCH_EDITS = 10_000
#: Edits of a line that are read. Behind them it is searched only as it is written.
MAX_LINE_EDITS = 100_000


def _read_otherwise(text: str, type_: str | None, pattern: Pattern, check: Callable[[], None]) -> Iterator[MatchedLine]:
    """The lines of a text that match as they are read, in order, each once."""
    number, counted, size = 1, 0, 0
    for place in _places(text, type_, pattern, check):
        start = text.rfind("\n", 0, place) + 1
        if start < counted:
            continue
        end = text.find("\n", place)
        line = text[start : len(text) if end < 0 else end].removesuffix("\r")
        number += text.count("\n", counted, start)
        size += len(text[counted:start].encode())
        first = len(line[: place - start].encode())
        length = len(line.encode())
        yield MatchedLine(number, size, size + length, first, number, size + length)
        counted, size = start + len(line), size + length


def _places(text: str, type_: str | None, pattern: Pattern, check: Callable[[], None]) -> Iterator[int]:
    """The places of the text where something matches as it is read."""
    edits, lines = full(type_, text), _Lines()
    edit = next(edits, None)
    while edit is not None:
        check()
        edit = lines.add(text, edit, edits)
        if edit is None or lines.edits >= BATCH_EDITS:
            yield from lines.places(pattern, check)
            # millions of edits would fill the memory
            lines = _Lines()


class _Lines:
    """Some lines of a text that are read otherwise. Those in which an edit spans several count as one."""

    def __init__(self) -> None:
        self.edits = 0
        self._starts: list[int] = []
        self._lines: list[ReadText] = []

    def add(self, text: str, edit: Edit | None, following: Iterator[Edit]) -> Edit | None:
        """Add the line of an edit, with those of the following ones that are in it. Returns the first that is not.

        A line with more than `MAX_LINE_EDITS` ends behind them.
        """
        start = end = 0
        is_whole = True
        of_line: list[Edit] = []
        while edit is not None and (not of_line or edit.start <= end):
            start = start if of_line else text.rfind("\n", 0, edit.start) + 1
            found = text.find("\n", max(end, edit.end))
            end = len(text) if found < 0 else found
            is_whole = len(of_line) < MAX_LINE_EDITS
            if is_whole:
                of_line.append(Edit(edit.start - start, edit.end - start, edit.text))
            edit = next(following, None)
        self._starts.append(start)
        self._lines.append(ReadText(text[start : end if is_whole else start + of_line[-1].end], of_line))
        self.edits += len(of_line)
        return edit

    def places(self, pattern: Pattern, check: Callable[[], None]) -> Iterator[int]:
        """The places in the text where a line matches as it is read, in order."""
        for index, column in self._matches(pattern, check):
            yield self._starts[index] + column

    def _matches(self, pattern: Pattern, check: Callable[[], None]) -> Iterator[tuple[int, int]]:
        """Numbers of the lines that match, and the place in each."""
        if pattern.is_multiline:
            # a match spans no two lines that do not follow each other
            for index, line in enumerate(self._lines):
                for match in matching_lines(line.text.encode(), pattern, check):
                    yield index, self._column(index, line.text.encode(), match)
                    break
            return
        parts = [line.text.encode() for line in self._lines]
        ends = np.cumsum([len(part) + 1 for part in parts]).tolist()
        for match in matching_lines(b"\n".join(parts), pattern, check):
            index = bisect_right(ends, match.start)
            yield index, self._column(index, parts[index], match, ends[index] - len(parts[index]) - 1)

    def _column(self, index: int, part: bytes, match: MatchedLine, start: int = 0) -> int:
        read = len(part[: match.start - start + match.match_start].decode(errors="replace"))
        return int(self._lines[index].written_at(np.array(read)))
