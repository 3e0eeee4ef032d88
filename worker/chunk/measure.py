"""Lengths and length limits of spans of one text. A single tokenisation answers nearly every question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from schemas.content.document import SEPARATOR_TOKENS
from schemas.content.source import ChunkSettings
from worker.reading import ReadForm, ReadText, embedded, read_form
from worker.tokens.byte_tables import Offsets
from worker.tokens.tokenizers import Tokenizer

#: Maximum characters of a chunk's written form: an embedded picture has a million, though few tokens.
MAX_WRITTEN_CHARS = 1_000_000

#: Kinds of definitions that do not name a chunk with other definitions.
MINOR_KINDS = frozenset({"constant", "variable"})

Span = tuple[int, int]


class ChunkSpan(NamedTuple):
    """A span of the text that becomes a chunk.

    `above` is its context: the headings, keys or headers around it, outermost first. `scope` names the definitions or
    keys around it, "outer/inner".
    """

    start: int
    end: int
    above: tuple[str, ...] = ()
    pointer: str | None = None
    title: str | None = None
    node_type: str | None = None
    symbol: str | None = None
    scope: str | None = None


#: Builds a `ChunkSpan` from a tuple of all its fields, in half the time of its own constructor.
made_piece = partial(tuple.__new__, ChunkSpan)


@dataclass(frozen=True, slots=True)
class Measure:
    """Lengths and limits of one text, in tokens and characters.

    `starts` are the offsets of the tokens in the whole text. A part tokenised alone can have a few tokens more, so
    spans within `slack` of the limit are tokenised again. `room` is the model's limit less the context, which has at
    most `context_tokens`. `joint` separates the parts of a context. Tokens and characters are counted in the text as it
    is `read`, if that differs from the written `text`; offsets refer to the written one. `form` reads its parts.
    """

    text: str
    tokenizer: Tokenizer
    starts: Offsets
    max_tokens: int
    max_chars: int
    by_chars: bool
    overlap_tokens: int
    overlap_chars: int
    room: int
    context_tokens: int
    joint: str
    form: ReadForm
    read: ReadText | None

    @property
    def slack(self) -> int:
        """Distance from the limit in tokens within which counts of the whole text are not trusted."""
        return 4 + self.max_tokens // 64

    @property
    def limit(self) -> int:
        """The limit in the unit of the distance between cuts."""
        return self.max_chars if self.by_chars else self.max_tokens

    def units(self, offsets: Offsets) -> Offsets:
        """Return the distances of `offsets` from the text's start, in the unit of the distance between cuts."""
        return self.chars(offsets) if self.by_chars else self.tokens(offsets)

    def chars(self, offsets: Offsets) -> Offsets:
        """Return the number of readable characters before each of the `offsets`."""
        return offsets if self.read is None else self.read.read_at(offsets)

    def at_chars(self, numbers: Offsets) -> Offsets:
        """Return the offsets after this many readable characters, or a few more: none is within an edit."""
        if self.read is None:
            return numbers
        offsets = self.read.written_at(np.maximum(numbers, 0))
        return self.read.behind(offsets, where=self.read.read_at(offsets) < numbers)

    def at_tokens(self, numbers: Offsets) -> Offsets:
        """Return the offsets before which this many tokens start. None is within an edit, which would add tokens."""
        numbers = np.minimum(np.maximum(numbers, 0), len(self.starts) - 1)
        offsets = self.starts[numbers]
        return offsets if self.read is None else self.read.behind(offsets, where=self.tokens(offsets) < numbers)

    def tokens(self, offsets: Offsets) -> Offsets:
        """Return the number of tokens that start before each of the `offsets`."""
        return self.starts.searchsorted(offsets)

    def count(self, start: int, end: int) -> int:
        """Return the number of tokens that start within the span."""
        # two scalar searches are faster than one over an array of two
        return int(self.starts.searchsorted(end)) - int(self.starts.searchsorted(start))

    def surely_fit(self, starts: Offsets, ends: Offsets) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return a mask of the spans that certainly fit, without tokenising again."""
        tokens = self.tokens(ends) - self.tokens(starts)
        fit = tokens <= self.max_tokens - self.slack
        if self.max_chars < len(self.text):
            fit &= self.chars(ends) - self.chars(starts) <= self.max_chars
        return fit if self.read is None else fit & (ends - starts <= MAX_WRITTEN_CHARS)

    def fits(self, start: int, end: int) -> bool:
        """Return whether the span, tokenised alone without surrounding white space, is within all limits."""
        tokens = self.count(start, end)
        if tokens <= self.max_tokens - self.slack and self.has_room(start, end):
            return True
        start, end = trim(self.text, start, end)
        tokens = self.count(start, end)
        if tokens > self.max_tokens or not self.has_room(start, end):
            return False
        return tokens <= self.max_tokens - self.slack or self.alone(self.as_read(start, end)) <= self.max_tokens

    def has_room(self, start: int, end: int) -> bool:
        """Return whether the span is within the limits on characters."""
        is_short = self.read is None or end - start <= MAX_WRITTEN_CHARS
        return is_short and (self.max_chars >= len(self.text) or self.length(start, end) <= self.max_chars)

    def length(self, start: int, end: int) -> int:
        """Return the number of readable characters of the span."""
        if self.read is None:
            return end - start
        first, last = self.read.read_at(np.array((start, end))).tolist()
        return int(last - first)

    def as_read(self, start: int, end: int) -> str:
        """Return the readable form of the span on its own."""
        return self.text[start:end] if self.read is None else embedded(self.form.type, self.text[start:end])

    def of_written(self, part: str) -> Measure:
        """Return the same limits for a part in its written form."""
        return replace(self, text=part, starts=self.tokenizer.starts(part), read=None)

    def fits_alone(self, alone: str, in_whole: str) -> bool:
        """Return whether a span that fits as it is read `in_whole` also fits when it is read `alone`.

        Its readable form may then differ: the lines around a blob may be needed to recognise it.
        """
        if alone == in_whole:
            return True
        is_short = self.max_chars >= len(self.text) or len(alone) <= self.max_chars
        return is_short and self.alone(alone) <= self.max_tokens

    def alone(self, text: str) -> int:
        """Return the number of tokens of a text on its own."""
        return len(self.tokenizer.starts(text))


def measure(
    text: str,
    settings: ChunkSettings,
    tokenizer: Tokenizer,
    max_tokens: int,
    *,
    context_tokens: int,
    joint: str = " > ",
    type_: str | None = None,
    read: ReadForm | None = None,
) -> Measure:
    """Combine the limits of `settings` with the model's limit `max_tokens`, and count the text's tokens.

    Reserves room for a context of `context_tokens`, but at most a quarter of the model's limit. `read` is the text's
    read form, if that is known.
    """
    context = min(context_tokens, max_tokens // 4)
    room = max(1, max_tokens - context - (SEPARATOR_TOKENS if context else 0))
    characters = settings.unit == "characters"
    size = min(settings.size, room)
    form = read or read_form(type_, text)
    whole = form.whole
    return Measure(
        text=text,
        tokenizer=tokenizer,
        starts=tokenizer.starts(text) if whole is None else whole.all_written_at(tokenizer.starts(whole.text)),
        max_tokens=room if characters else size,
        max_chars=settings.size if characters else len(text),
        # if the model's limit is by far the narrower one, cuts are spaced by it
        by_chars=characters and settings.size <= 3 * room,
        # if the model takes less than the requested size, the overlap shrinks with the chunk
        overlap_tokens=len(text) if characters else settings.overlap * size // settings.size,
        overlap_chars=settings.overlap if characters else len(text),
        room=room,
        context_tokens=context,
        joint=joint,
        form=form,
        read=whole,
    )


def trim(text: str, start: int, end: int) -> Span:
    """Return the span without trailing white space and leading blank lines; the first line keeps its indentation."""
    start, part = trimmed(text, start, end)
    return start, start + len(part)


def trimmed(text: str, start: int, end: int) -> tuple[int, str]:
    """Return the start and the text of a span trimmed like `trim` does."""
    part = text[start:end].rstrip()
    if not part[:1].isspace():
        return start, part
    lead = len(part) - len(part.lstrip())
    # search from one character before the start: if it is a newline, the span starts a line
    line = text.rfind("\n", max(start - 1, 0), start + lead)
    first = start + lead if line < 0 and start > 0 else line + 1
    return first, part[first - start :]
