"""Finds near-duplicates among the first hits: copies in one file, and twins in different files."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

#: Minimum share of common words for two chunks to be near-duplicates.
DUPLICATE_SHARE = 0.9
#: Maximum chunks that are compared with each other: a search may show thousands.
MAX_COMPARED = 64


class Compared(NamedTuple):
    """Chunks that nearly duplicate a better one of their file, and the other files of the rest, by number."""

    repeated: frozenset[int]
    twins: dict[int, list[int]]


def near_duplicates(chunks: Iterable[tuple[Hashable, str]]) -> Compared:
    """Compare chunks, best first, each with its file and its text.

    A twin stands in another file. It is kept, because versions of a document or of a platform differ where it matters.
    """
    kept: list[tuple[int, Hashable, frozenset[str]]] = []
    repeated: set[int] = set()
    twins: dict[int, list[int]] = {}
    for number, (file, text) in enumerate(chunks):
        words = frozenset(text.split())
        # texts of very different length are not duplicates
        least, most = DUPLICATE_SHARE * len(words), len(words) / DUPLICATE_SHARE
        alike = [
            (other, of)
            for other, of, of_words in kept
            if least <= len(of_words) <= most and _share_most(words, of_words)
        ]
        if any(of == file for _, of in alike):
            repeated.add(number)
            continue
        kept.append((number, file, words))
        for other, _ in alike:
            twins.setdefault(other, []).append(number)
            twins.setdefault(number, []).append(other)
    return Compared(frozenset(repeated), twins)


def _share_most(words: frozenset[str], other: frozenset[str]) -> bool:
    """Whether nine tenths of the words of either text are in both (Jaccard index)."""
    shared = len(words & other)
    return shared >= DUPLICATE_SHARE * (len(words) + len(other) - shared)
