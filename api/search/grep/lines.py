"""Finds the lines of a text that match a pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from api.search.grep.pattern import Pattern, next_character
from schemas.queries.grep import MAX_SPANS, Span

#: Maximum characters shown of a line.
MAX_SHOWN_CHARACTERS = 500
#: Characters of a longer line shown before the match.
_CHARACTERS_BEFORE_MATCH = 120


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line with a match. `number` counts from 1; `start` and `end` delimit it in the text, in bytes.

    `match_start` is the byte in the line where the match begins. `last_number` is the line in which the match ends, and
    `stop` the byte at which that line ends.
    """

    number: int
    start: int
    end: int
    match_start: int
    last_number: int
    stop: int


def matching_lines(text: bytes, pattern: Pattern, check: Callable[[], None]) -> Iterator[MatchedLine]:
    """Yield the matching lines of a UTF-8 text in order. `check` is called often, and may raise to end the search.

    Only the beginning of a line longer than the pattern's reach is searched. Only a line feed ends a line; a carriage
    return before it is not part of the line. If matches may span lines, a line is yielded once, with its first match.
    """
    return _across_lines(text, pattern, check) if pattern.is_multiline else _line_by_line(text, pattern, check)


def _line_by_line(text: bytes, pattern: Pattern, check: Callable[[], None]) -> Iterator[MatchedLine]:
    number, counted, position = 1, 0, 0
    while position < len(text):
        check()
        end, following = _window(text, position, pattern.reach)
        match = pattern.text.search(text, position, end)
        # a match right after the last line feed belongs to a line that has not begun yet
        if match is None or (match.start() == following and text.endswith(b"\n", 0, following)):
            position = following
            continue
        start, stop = _line(text, position, match.start())
        line = text[start : min(stop, start + pattern.reach)]
        exact = pattern.exact.first(line, 0, len(line))
        if exact is not None:
            number += text.count(b"\n", counted, start)
            counted = start
            yield MatchedLine(number, start, stop, exact[0], number, stop)
        position = _next_line(text, stop)


def _across_lines(text: bytes, pattern: Pattern, check: Callable[[], None]) -> Iterator[MatchedLine]:
    number, start, line_end = 1, 0, -1
    for first, last in _matches(text, pattern, check):
        # a line may have a million matches, so it is not looked for at each of them
        if first > line_end and not (first == len(text) and text.endswith(b"\n")):
            begins, ends = _line(text, line_end + 1, first)
            number += text.count(b"\n", start, begins)
            start, line_end = begins, _line_end(text, first)
            stop = _line(text, begins, max(first, last - 1))[1]
            yield MatchedLine(number, begins, ends, first - begins, number + text.count(b"\n", begins, stop), stop)


def _matches(text: bytes, pattern: Pattern, check: Callable[[], None]) -> Iterator[tuple[int, int]]:
    """Yield successive matches as ripgrep does: no empty match directly at the end of the previous one.

    Windows overlap by half, so any match up to half a window long is found.
    """
    position, previous_end = 0, -1
    while position <= len(text):
        check()
        end = min(len(text), position + pattern.reach)
        half = len(text) + 1 if end == len(text) else position + pattern.reach // 2
        match = pattern.exact.first(text, position, end)
        if match is None or match[0] >= half:
            position = half
            continue
        first, last = match
        if first < last or last != previous_end:
            yield match
            previous_end = last
        position = last if first < last else next_character(text, last)


def shown(line: bytes, match_start: int) -> tuple[str, int]:
    """A line for display, cut around byte `match_start` if it is long, and the column of that byte, from 1."""
    column = len(line[:match_start].decode(errors="replace"))
    text = line.decode(errors="replace")
    first = _first_shown(text, column)
    cut = text[first : first + MAX_SHOWN_CHARACTERS]
    return f"{'…' if first else ''}{cut}{'…' if first + MAX_SHOWN_CHARACTERS < len(text) else ''}", column + 1


def spans_shown(text: bytes, line: MatchedLine, pattern: Pattern, check: Callable[[], None]) -> list[Span]:
    """The spans of the matches within the text from `shown`, in characters from 0."""
    written = text[line.start : line.end]
    characters = written.decode(errors="replace")
    first = _first_shown(characters, len(written[: line.match_start].decode(errors="replace")))
    shift, spans = first - (1 if first else 0), list[Span]()
    counted, column = 0, 0
    for start, end in _matches(text[line.start : line.stop], pattern, check):
        column += len(written[counted:start].decode(errors="replace"))
        if column >= first + MAX_SHOWN_CHARACTERS or start > len(written) or len(spans) == MAX_SPANS:
            break
        after = column + len(written[start:end].decode(errors="replace"))
        spans.append(Span(start=column - shift, end=min(after, first + MAX_SHOWN_CHARACTERS) - shift))
        counted, column = end, after
    return spans


def _first_shown(text: str, column: int) -> int:
    """The first character that is shown of a line that is cut around `column`."""
    return max(0, min(column - _CHARACTERS_BEFORE_MATCH, len(text) - MAX_SHOWN_CHARACTERS))


def lines_before(text: bytes, start: int, count: int, floor: int) -> list[str]:
    """Up to `count` lines that end before byte `start` and after `floor`, in order."""
    lines: list[str] = []
    while start > floor and len(lines) < count:
        stop = start - 1
        start = text.rfind(b"\n", 0, stop) + 1
        lines.append(shown(_without_return(text[start:stop]), 0)[0])
    return lines[::-1]


def lines_after(text: bytes, end: int, count: int) -> list[str]:
    """Up to `count` lines after the one that ends at byte `end`."""
    lines: list[str] = []
    start = _next_line(text, end)
    while start < len(text) and len(lines) < count:
        stop = _line_end(text, start)
        lines.append(shown(_without_return(text[start:stop]), 0)[0])
        start = stop + 1
    return lines


def _window(text: bytes, start: int, reach: int) -> tuple[int, int]:
    """The end of the window from a line's start, and the next start. A window is whole lines, or the start of one."""
    end = start + reach
    if end >= len(text):
        return len(text), len(text)
    line_end = text.rfind(b"\n", start, end)
    if line_end >= 0:
        return line_end + 1, line_end + 1
    return end, _next_line(text, end)


def _line(text: bytes, floor: int, position: int) -> tuple[int, int]:
    start = text.rfind(b"\n", floor, position) + 1 or floor
    stop = _line_end(text, position)
    return start, stop - 1 if text[start:stop].endswith(b"\r") else stop


def _line_end(text: bytes, position: int) -> int:
    end = text.find(b"\n", position)
    return len(text) if end < 0 else end


def _next_line(text: bytes, position: int) -> int:
    return _line_end(text, position) + 1


def _without_return(line: bytes) -> bytes:
    return line.removesuffix(b"\r")
