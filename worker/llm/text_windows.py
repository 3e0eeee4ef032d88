"""Parts of texts that are longer than a model takes, counted in tokens of cl100k."""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nlargest

from worker.tokens.tokenizers import cl100k

#: Neighbouring windows share this part of their tokens, so that a sentence at a border is whole in one of them.
_SHARED = 8


def windows(text: str, tokens: int) -> list[str]:
    """All of `text` in overlapping parts of at most so many tokens; the text itself if it is no longer."""
    if len(text.encode()) <= tokens:
        return [text]  # no token is less than a byte
    starts = cl100k().starts(text)
    if len(starts) <= tokens:
        return [text]
    borders = [*starts.tolist(), len(text)]
    shared = tokens // _SHARED
    begins = range(0, len(starts) - shared, tokens - shared)
    return [text[borders[begin] : borders[min(begin + tokens, len(starts))]] for begin in begins]


def beginning(text: str, tokens: int) -> str:
    """The first so many tokens of a text."""
    return windows(text, tokens)[0]


def likeliest(query: str, parts: Sequence[str], count: int) -> list[str]:
    """At most `count` parts, those with the most words of the query; the earlier ones where as many are in both."""
    if len(parts) <= count:
        return list(parts)
    words = set(re.findall(r"\w+", query.casefold()))
    return nlargest(count, parts, key=lambda part: _found(words, part.casefold()))


def _found(words: set[str], text: str) -> int:
    return sum(word in text for word in words)
