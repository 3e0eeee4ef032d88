"""Parts of texts that exceed a model's limit, counted in tokens of cl100k."""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nlargest

from worker.tokens.tokenizers import cl100k

#: Neighbouring windows share one token in this many, so that a sentence at a border is whole in one of them.
_OVERLAP_DIVISOR = 8


def windows(text: str, tokens: int) -> list[str]:
    """Return overlapping parts of at most `tokens` tokens that cover the text; the text itself if it is short."""
    if len(text.encode()) <= tokens:
        return [text]  # every token has at least one byte
    starts = cl100k().starts(text)
    if len(starts) <= tokens:
        return [text]
    borders = [*starts.tolist(), len(text)]
    overlap = tokens // _OVERLAP_DIVISOR
    begins = range(0, len(starts) - overlap, tokens - overlap)
    return [text[borders[begin] : borders[min(begin + tokens, len(starts))]] for begin in begins]


def beginning(text: str, tokens: int) -> str:
    """Return the first `tokens` tokens of a text."""
    return windows(text, tokens)[0]


def likeliest(query: str, parts: Sequence[str], count: int) -> list[str]:
    """Return at most `count` parts: those with the most words of the query; of equal parts, the earlier ones."""
    if len(parts) <= count:
        return list(parts)
    words = set(re.findall(r"\w+", query.casefold()))
    return nlargest(count, parts, key=lambda part: _count_words(words, part.casefold()))


def _count_words(words: set[str], text: str) -> int:
    return sum(word in text for word in words)
