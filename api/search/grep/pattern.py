"""Compiles a pattern in RE2 syntax, with variants that find candidates faster than a search line by line.

RE2 and ripgrep's engine both run in linear time and accept nearly the same syntax. The exact expression has the last
word. It is applied to single lines, or to the whole text if matches may span lines. Two wider expressions, for RE2 and
for ripgrep, search whole texts. They may match more, but never less.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from api.search.grep.translate import (
    NO_WORD,
    across_lines,
    by_lines,
    for_re2,
    for_ripgrep,
    matches_more,
    refuse_operations,
)
from api.search.grep.word_borders import WordBorders, split_borders
from schemas.errors import Invalid
from schemas.queries.grep import MAX_SPAN, Grep

#: Maximum bytes of memory that RE2 uses for one expression, compiled and running. It holds the interpreter while it
#: compiles, for some 30 ms for each MB.
MAX_MEMORY = 4 << 20
#: Maximum steps of one uninterruptible search in the worst case: an expression's instructions times bytes.
MAX_STEPS = 200_000_000
#: Minimum bytes that any expression searches at a time. The next window begins at half of this one.
MIN_REACH = 2 * MAX_SPAN

#: Maximum characters of a pattern with its classes spelled out. RE2 parses longer ones for seconds, then rejects them.
MAX_SPELLED_CHARACTERS = 300_000
#: Maximum classes of Unicode in a pattern. RE2 takes up to a millisecond to parse one.
MAX_CLASSES = 100
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
#: Maximum characters of RE2's message in an error.
MAX_MESSAGE_CHARACTERS = 200

#: The first two bits of a UTF-8 continuation byte.
_CONTINUATION = 0x80
#: Mask of the first two bits.
_CONTINUATION_MASK = 0xC0


@dataclass(frozen=True, slots=True)
class ExactMatcher:
    """The exact matcher. For words, `at_start` matches at the start of the text, `after_other` after a non-word.

    With `ending`, a match includes the non-word character that follows, unless the text ends there. `ending` makes an
    expression whose last group is that character.
    """

    anywhere: Any
    at_start: Any = None
    after_other: Any = None
    ending: Callable[[], Any] | None = None

    def first(self, text: bytes, start: int, end: int) -> tuple[int, int] | None:
        """The start and end of the first match from `start` on. A word match has no word character beside it.

        Works as ripgrep's half boundaries: only the characters around a match count, whatever the match itself begins
        and ends with. If a shorter match fails, a longer or later one may succeed.
        """
        if self.at_start is None:
            match = self.anywhere.search(text, start, end)
            return match and (match.start(), self._end(text, match.start(), match.end(), end))
        if start == 0 and (match := self.at_start.match(text, 0, end)):
            return 0, self._end(text, 0, match.end(), end)
        match = self.after_other.search(text, _character(text, start - 1) if start else 0, end)
        if not match:
            return None
        first = next_character(text, match.start())
        return first, self._end(text, first, match.end(), end)

    def _end(self, text: bytes, first: int, last: int, end: int) -> int:
        """The end of what matches from `first` to `last`, without the character after the word."""
        if self.ending is None:
            return last
        # only at the end of the text may a match have no character after it
        if last < end:
            return _character(text, last - 1)
        found = self.ending().match(text, first, end)
        return last if found is None or found[found.re.groups] is None else _character(text, last - 1)

    @property
    def size(self) -> int:
        """Instructions of the largest expression."""
        expressions = (self.anywhere, self.at_start, self.after_other)
        return max(int(expression.programsize) for expression in expressions if expression is not None)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern. `exact` decides; `text` finds lines that may match, in UTF-8 bytes.

    `ripgrep` holds the arguments with which rg finds every file with such a line; None if rg would read the pattern
    differently. rg misses only files that are not UTF-8. With `is_ascii` it misses none of those either: matches have
    the same bytes in nearly every encoding, or rg accepts any bytes for them. At most `reach` bytes are searched at a
    time. `literal` is a pattern of plain text.
    """

    exact: ExactMatcher
    text: Any
    ripgrep: list[str] | None
    is_ascii: bool
    is_multiline: bool
    reach: int
    literal: str | None = None

    def is_cut(self, text: bytes) -> bool:
        """Whether some line, or the text if matches may span lines, is longer than `reach`."""
        start = 0
        while len(text) - start > self.reach:
            end = text.rfind(b"\n", start, start + self.reach + 1)
            if self.is_multiline or end < 0:
                return True
            start = end + 1
        return False


def compiled_pattern(request: Grep) -> Pattern:
    """Compile the pattern of a request. Raises `Invalid`, naming the error, for an invalid or too large pattern."""
    if "\0" in request.pattern or ("\n" in request.pattern and not request.multiline):
        raise Invalid(
            "`pattern` contains a line break or NUL, which no line contains; search for the text of one line, "
            "or send `multiline`."
        )
    borders = WordBorders(request.pattern if request.regex else re2.escape(request.pattern), front=False, back=False)
    source = borders.pattern
    if request.regex:
        if sum(each in "wWpP" for each in _ESCAPED.findall(source)) > MAX_CLASSES:
            raise Invalid(f"`pattern` has more than {MAX_CLASSES} of `\\w`, `\\W`, `\\p` and `\\P`; use fewer of them.")
        # compile the pattern as sent first, so that errors refer to it
        _expression(source, request)
        refuse_operations(source)
        borders = split_borders(source)
        source = for_re2(borders.pattern)
        if len(source) > MAX_SPELLED_CHARACTERS:
            raise Invalid("`pattern` is too large with its Unicode classes; use fewer of `\\s` and `\\S`.")
    wide = across_lines(source) if request.multiline else by_lines(source)
    text = _expression(wide, request)
    exact = _finder(wide if request.multiline else source, request, borders)
    # the library caches recent expressions forever, and they may be large
    re2.purge()
    is_ascii = request.pattern.isascii() and not (request.regex and matches_more(request.pattern))
    reach = max(MIN_REACH, MAX_STEPS // max(1, text.programsize, exact.size))
    literal = None if request.regex else request.pattern
    return Pattern(exact, text, _arguments(request, borders), is_ascii, request.multiline, reach, literal)


def next_character(text: bytes, position: int) -> int:
    """The start of the character after the one at `position`."""
    position += 1
    while position < len(text) and text[position] & _CONTINUATION_MASK == _CONTINUATION:
        position += 1
    return position


def _character(text: bytes, position: int) -> int:
    """The start of the character that contains the byte at `position`."""
    while position and text[position] & _CONTINUATION_MASK == _CONTINUATION:
        position -= 1
    return position


def _finder(source: str, request: Grep, borders: WordBorders) -> ExactMatcher:
    has_end = request.word or borders.back
    ending = None
    if has_end:
        captured = rf"(?:{source})(?:\z|({NO_WORD}))"
        ending = cache(lambda: _expression(captured, request, captures=True))
        source = rf"(?:{source})(?:\z|{NO_WORD})"
    if not (request.word or borders.front):
        return ExactMatcher(_expression(source, request), ending=ending)
    at_start = _expression(rf"\A(?:{source})", request)
    after_other = _expression(f"{NO_WORD}(?:{source})", request)
    return ExactMatcher(None, at_start, after_other, ending)


def _arguments(request: Grep, borders: WordBorders) -> list[str] | None:
    """The arguments of rg; None if rg cannot express the pattern."""
    case = [] if request.case_sensitive else ["--ignore-case"]
    options = [*case, *(["--multiline"] if request.multiline else [])]
    if not (request.regex or request.word or request.multiline):
        return [*options, "--fixed-strings", "--", request.pattern]
    translated = for_ripgrep(borders.pattern, word=request.word, multiline=request.multiline)
    return None if translated is None else [*options, "--", translated]


def _expression(source: str, request: Grep, *, captures: bool = False) -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_nl = not request.multiline
    # groups are read nowhere else, and capturing them would slow down every search
    options.never_capture = not captures
    options.case_sensitive = request.case_sensitive
    try:
        return re2.compile(source.encode(), options)
    except re2.error as error:
        message = error.args[0].decode(errors="replace") if error.args else "not a regular expression"
        shown = message[:MAX_MESSAGE_CHARACTERS]
        raise Invalid(
            f"`pattern` is invalid: {shown}. Use RE2's syntax, which has no look-around and no back-references. "
            "Shorten a pattern that is too large. For plain text, send `regex: false` (by MCP `fixed: true`), or call "
            "`foldex grep` with -F."
        ) from error
