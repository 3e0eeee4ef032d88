"""Compiles a pattern in RE2 syntax, with variants that find candidates faster than line by line.

RE2 and ripgrep's engine both run in linear time and accept nearly the same syntax. The exact expression decides, on
single lines, or on the text if matches may span lines. Two wider ones, for RE2 and for ripgrep, search whole texts;
they may match more, but never less.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from api.search.grep.word_borders import Ends, ends
from schemas.errors import Invalid
from schemas.grep import MAX_SPAN, Grep

#: Maximum bytes of memory that RE2 uses for one expression, compiled and running.
MAX_MEMORY = 8 << 20
#: Maximum steps of one uninterruptible search in the worst case: an expression's instructions times bytes.
MAX_STEPS = 200_000_000
#: Minimum bytes that any expression searches at a time. The next window begins at half of this one.
MIN_REACH = 2 * MAX_SPAN

#: Maximum characters of a pattern with its classes spelled out. RE2 parses longer ones for seconds, then rejects them.
MAX_SPELLED = 300_000

#: The first bits of a UTF-8 continuation byte, and their mask.
_GOES_ON, _FIRST_BITS = 0x80, 0xC0


@dataclass(frozen=True, slots=True)
class Finder:
    """The exact matcher. For words, `here` matches at the start of the text, and `behind` after a non-word character.

    With `ended`, a match includes the non-word character that follows, unless the text ends there.
    """

    anywhere: Any
    here: Any = None
    behind: Any = None
    ended: bool = False

    def first(self, text: bytes, start: int, end: int) -> tuple[int, int] | None:
        """The start and end of the first match from `start` on. A word match has no word character beside it.

        Works as ripgrep's half boundaries: only the characters around a match count, whatever the match itself begins
        and ends with. If a shorter match fails, a longer or later one may succeed.
        """
        if self.here is None:
            match = self.anywhere.search(text, start, end)
            return match and (match.start(), self._end(text, match))
        if start == 0 and (match := self.here.match(text, 0, end)):
            return 0, self._end(text, match)
        match = self.behind.search(text, _character(text, start - 1) if start else 0, end)
        return match and (next_character(text, match.start()), self._end(text, match))

    def _end(self, text: bytes, match: Any) -> int:
        return _without_last(text, match.end()) if self.ended else int(match.end())

    @property
    def size(self) -> int:
        """Instructions of the largest expression."""
        return max(int(one.programsize) for one in (self.anywhere, self.here, self.behind) if one is not None)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern. `exact` decides; `text` finds lines that may match, in UTF-8 bytes.

    `ripgrep` holds the arguments with which rg finds every file with such a line; None if rg would read the pattern
    differently. rg misses only files that are not UTF-8, and with `is_ascii` not even those: matches then have the same
    bytes in nearly every encoding, or rg accepts any bytes for them. At most `reach` bytes are searched at a time.
    """

    exact: Finder
    text: Any
    ripgrep: list[str] | None
    is_ascii: bool
    is_multiline: bool
    reach: int

    def is_cut(self, text: bytes) -> bool:
        """Whether some line, or the text if matches may span lines, is longer than `reach`."""
        long = len(text) > self.reach
        return long and (self.is_multiline or any(len(line) > self.reach for line in text.split(b"\n")))


def compiled_pattern(asked: Grep) -> Pattern:
    """Compile the pattern of a request. Raises `Invalid`, naming the error, for an invalid or too large pattern."""
    if "\0" in asked.pattern or ("\n" in asked.pattern and not asked.multiline):
        raise Invalid(
            "`pattern` holds a line break or NUL, which no line does; look for one line's text, or send `multiline`."
        )
    asked_for = Ends(asked.pattern if asked.regex else re2.escape(asked.pattern), front=False, back=False)
    source = asked_for.pattern
    if asked.regex:
        # compile the pattern as sent first, so that errors refer to it
        _expression(source, asked)
        refuse_operations(source)
        asked_for = ends(source)
        source = for_re2(asked_for.pattern)
        if len(source) > MAX_SPELLED:
            raise Invalid(
                "`pattern` is too large with the classes of Unicode in it; write fewer of `\\w`, `\\W` and `\\S`."
            )
    wide = across_lines(source) if asked.multiline else by_lines(source)
    text = _expression(wide, asked)
    exact = _finder(wide if asked.multiline else source, asked, asked_for)
    # the library caches recent expressions forever, and they may be large
    re2.purge()
    is_ascii = asked.pattern.isascii() and not (asked.regex and matches_more(asked.pattern))
    reach = max(MIN_REACH, MAX_STEPS // max(1, text.programsize, exact.size))
    return Pattern(exact, text, _arguments(asked, asked_for), is_ascii, asked.multiline, reach)


def next_character(text: bytes, place: int) -> int:
    """The start of the character after the one at `place`."""
    place += 1
    while place < len(text) and text[place] & _FIRST_BITS == _GOES_ON:
        place += 1
    return place


def _character(text: bytes, place: int) -> int:
    """The start of the character that contains the byte at `place`."""
    while place and text[place] & _FIRST_BITS == _GOES_ON:
        place -= 1
    return place


def _without_last(text: bytes, end: int) -> int:
    """The end of a match without the character after the word; at the end of the text there is none to remove."""
    return end if end == len(text) else _character(text, end - 1)


def _finder(source: str, asked: Grep, ends: Ends) -> Finder:
    ended = asked.word or ends.back
    if ended:
        source = rf"(?:{source})(?:\z|{NO_WORD})"
    if not (asked.word or ends.front):
        return Finder(_expression(source, asked), ended=ended)
    here, behind = _expression(rf"\A(?:{source})", asked), _expression(f"{NO_WORD}(?:{source})", asked)
    return Finder(None, here, behind, ended)


def _arguments(asked: Grep, ends: Ends) -> list[str] | None:
    options = [*([] if asked.case_sensitive else ["--ignore-case"]), *(["--multiline"] if asked.multiline else [])]
    if not (asked.regex or asked.word or asked.multiline):
        return [*options, "--fixed-strings", "--", asked.pattern]
    theirs = for_ripgrep(ends.pattern, word=asked.word, multiline=asked.multiline)
    return None if theirs is None else [*options, "--", theirs]


def _expression(source: str, asked: Grep) -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_nl = not asked.multiline
    # groups are never read, and capturing them would slow down every search
    options.never_capture = True
    options.case_sensitive = asked.case_sensitive
    try:
        return re2.compile(source.encode(), options)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if error.args else "no regular expression"
        raise Invalid(
            f"`pattern` is not taken: {said[:200]}. Write it in RE2's syntax, without look-around and references, and "
            "smaller where it is too large; or look for plain text with `regex: false`."
        ) from error
