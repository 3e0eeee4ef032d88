"""How long spans of one text are, and how long they may be. One tokenisation answers nearly every question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from schemas.source import ChunkSettings
from worker.tokens.tokenizers import Offsets, Tokenizer

#: Tokens that the empty line between context and text may cost.
SEPARATOR_TOKENS = 2

Span = tuple[int, int]


class Piece(NamedTuple):
    """A span of the text that becomes a chunk.

    `above` is its context: the headings, keys or headers around it, outermost first. `scope` names the definitions
    or keys around it, "outer/inner".
    """

    start: int
    end: int
    above: tuple[str, ...] = ()
    pointer: str | None = None
    title: str | None = None
    node_type: str | None = None
    symbol: str | None = None
    scope: str | None = None


#: A piece of a tuple of all its fields, in half the time that its own constructor takes.
made_piece = partial(tuple.__new__, Piece)


@dataclass(frozen=True, slots=True)
class Measure:
    """Lengths and limits of one text, in tokens and characters.

    `starts` are the tokens' starts in the whole text. A part that is tokenised alone can count a few tokens more, so
    spans near the limit (`slack`) are tokenised once more. `room` is what the model takes beside the context, of which
    `context_tokens` is the most; `joint` parts its parts.
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
    joint: str = " > "

    @property
    def slack(self) -> int:
        """Tokens below the limit from which on a count inside the whole text is not trusted."""
        return 4 + self.max_tokens // 64

    @property
    def limit(self) -> int:
        """The limit in the unit that cuts are spaced in."""
        return self.max_chars if self.by_chars else self.max_tokens

    def units(self, at: Offsets) -> Offsets:
        """The characters `at` as distances from the text's start, in the unit that cuts are spaced in."""
        return at if self.by_chars else self.tokens(at)

    def tokens(self, at: Offsets) -> Offsets:
        """Tokens that start before each of the characters `at`."""
        return self.starts.searchsorted(at)

    def count(self, start: int, end: int) -> int:
        """Tokens that start within the span."""
        # twice a number is faster than once two
        return int(self.starts.searchsorted(end)) - int(self.starts.searchsorted(start))

    def surely_fit(self, starts: Offsets, ends: Offsets) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which spans fit for certain, without another look at their text."""
        tokens = self.tokens(ends) - self.tokens(starts)
        return (tokens <= self.max_tokens - self.slack) & (ends - starts <= self.max_chars)

    def fits(self, start: int, end: int) -> bool:
        """Whether the span is within all limits when it is tokenised alone, without the white space around it."""
        tokens = self.count(start, end)
        if tokens <= self.max_tokens - self.slack and end - start <= self.max_chars:
            return True
        start, end = trim(self.text, start, end)
        tokens = self.count(start, end)
        if end - start > self.max_chars or tokens > self.max_tokens:
            return False
        return tokens <= self.max_tokens - self.slack or self.alone(self.text[start:end]) <= self.max_tokens

    def alone(self, text: str) -> int:
        """Tokens of a text by itself."""
        return len(self.tokenizer.starts(text))


def measure(
    text: str,
    starts: Offsets,
    settings: ChunkSettings,
    tokenizer: Tokenizer,
    max_tokens: int,
    *,
    context_tokens: int,
    joint: str = " > ",
) -> Measure:
    """The limits of `settings` and of a model that takes `max_tokens`.

    Room is set aside for a context of `context_tokens`, but at most for a quarter of what the model takes.
    """
    context = min(context_tokens, max_tokens // 4)
    room = max(1, max_tokens - context - (SEPARATOR_TOKENS if context else 0))
    characters = settings.unit == "characters"
    size = min(settings.size, room)
    return Measure(
        text=text,
        tokenizer=tokenizer,
        starts=starts,
        max_tokens=room if characters else size,
        max_chars=settings.size if characters else len(text),
        # where the model's limit is the narrower one by far, cuts must be spaced by it
        by_chars=characters and settings.size <= 3 * room,
        # where the model takes less than was asked for, the overlap shrinks with the chunk
        overlap_tokens=len(text) if characters else settings.overlap * size // settings.size,
        overlap_chars=settings.overlap if characters else len(text),
        room=room,
        context_tokens=context,
        joint=joint,
    )


def trim(text: str, start: int, end: int) -> Span:
    """The span without white space at its end and blank lines at its start; a first line keeps its indentation."""
    start, part = trimmed(text, start, end)
    return start, start + len(part)


def trimmed(text: str, start: int, end: int) -> tuple[int, str]:
    """The start and the text of such a span."""
    part = text[start:end].rstrip()
    if not part[:1].isspace():
        return start, part
    lead = len(part) - len(part.lstrip())
    # one character before the start: if it is a newline, the span begins with a line
    line = text.rfind("\n", max(start - 1, 0), start + lead)
    first = start + lead if line < 0 and start > 0 else line + 1
    return first, part[first - start :]
