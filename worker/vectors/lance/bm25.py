"""Keyword search over postings in memory, with the scores that Lance gives the same rows in a new table.

Lance's own scores also count deleted rows until a compaction, and count rows without an index separately.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.tokens.keywords import BM25_B, BM25_K1
from worker.tokens.normal_forms import normalized
from worker.vectors.lance.largest import kth_largest
from worker.vectors.lance.vector_cache import Passing, Positions

#: Maximum number of occurrences of a word in a row that count.
MAX_COUNT = np.iinfo(np.uint16).max
#: Assumed bytes of a word without its postings.
WORD_BYTES = 120
#: Bytes of a word's occurrences in one row.
POSTING_BYTES = 6
#: Bits of the position of a row.
ROW_BITS = 32
#: A block is merged with the newer ones if it has at most this many times their postings.
MERGE_RATIO = 2
#: Share of rows with a score above which all rows are compared: to copy those with a score would take longer.
COMMON_SHARE = 0.2

Scores = NDArray[np.float64]

#: Letters that Lance replaces, apart from letters with accents.
_LETTERS = dict(zip("ðđħ\u0131ĸłŋøŧ", "ddhiklnot", strict=True)) | {"æ": "ae", "œ": "oe", "ß": "ss", "þ": "th"}


class _Folded(dict[int, str]):
    """Lance's folding of characters, as a table for `str.translate`."""

    def __missing__(self, number: int) -> str:
        character = chr(number)
        decomposed = normalized("NFKD", character)
        plain = "".join(_LETTERS.get(part, part) for part in decomposed if not unicodedata.combining(part))
        self[number] = folded = plain if plain and plain.isascii() else character
        return folded


_folded = _Folded()


def folded(token: str) -> str:
    """Return a token in lower case and without accents, as in Lance's indexes."""
    lower = token.lower()
    return lower if lower.isascii() else lower.translate(_folded)


class Vocabulary:
    """Numbers of words. Callers add words one at a time."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, word: str) -> int | None:
        """Return the number of a word that some row has."""
        return self._numbers.get(word)

    def add(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of lower-case words, and assign numbers to new words."""
        numbers = self._numbers
        found = [*map(numbers.get, words)]
        # most words of new rows are known without folding
        for at, number in enumerate(found):
            if number is None:
                found[at] = numbers.setdefault(folded(words[at]), len(numbers))
        return np.array(found, np.int64)


@dataclass(frozen=True, slots=True)
class PostingsBlock:
    """The postings of some rows: the places and counts of each of the ascending `words`.

    The postings of `words[i]` are at `starts[i]` to `starts[i + 1]`.
    """

    words: NDArray[np.int32]
    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    counts: NDArray[np.uint16]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.words.nbytes + self.starts.nbytes + self.rows.nbytes + self.counts.nbytes

    def of(self, word: int) -> slice:
        """Return the range of a word's postings."""
        # a number of another type would convert the whole array
        at = int(self.words.searchsorted(np.int32(word)))
        is_here = at < len(self.words) and self.words[at] == word
        return slice(int(self.starts[at]), int(self.starts[at + 1])) if is_here else slice(0, 0)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Occurrences of words in some rows: word numbers, row positions, counts, and the number of words of each row."""

    words: NDArray[np.int64]
    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes of these postings in a block."""
        return POSTING_BYTES * len(self.rows)


def occurrences(column: Any, positions: Positions, vocabulary: Vocabulary) -> Occurrences:
    """Return the occurrences in an Arrow column of texts, whose rows have these positions."""
    import pyarrow.compute as pc

    trimmed = pc.ascii_trim_whitespace(column)
    # otherwise a text without words would have one empty word
    split = pc.ascii_split_whitespace(pc.if_else(pc.equal(trimmed, ""), None, trimmed))
    lengths = pc.fill_null(pc.list_value_length(split), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    tokens = split.flatten().dictionary_encode()
    numbers = vocabulary.add(tokens.dictionary.to_pylist())[tokens.indices.to_numpy(zero_copy_only=False)]
    # word and row in one number, which sorts fast
    both = np.sort(numbers << ROW_BITS | np.repeat(positions, lengths))
    first = np.flatnonzero(np.diff(both, prepend=-1))
    counts = np.diff(first, append=len(both))
    return Occurrences(both[first] >> ROW_BITS, both[first] & ((1 << ROW_BITS) - 1), counts, lengths)


def block(found: Sequence[Occurrences]) -> PostingsBlock:
    """Return the postings of all these occurrences."""
    words = np.concatenate([each.words for each in found])
    order = np.argsort(words, kind="stable")
    words = words[order]
    starts = np.flatnonzero(np.diff(words, prepend=-1))
    rows, counts = np.concatenate([each.rows for each in found]), np.concatenate([each.counts for each in found])
    return PostingsBlock(
        words[starts].astype(np.int32),
        np.append(starts, len(words)),
        rows[order].astype(np.uint32),
        np.minimum(counts[order], MAX_COUNT).astype(np.uint16),
    )


def merged(blocks: Sequence[PostingsBlock]) -> tuple[PostingsBlock, ...]:
    """Merge the newest blocks, oldest first, so that their number grows with the logarithm of all postings."""
    kept, newest = [*blocks[:-1]], [*blocks[-1:]]
    size = sum(len(each.rows) for each in newest)
    while kept and len(kept[-1].rows) <= MERGE_RATIO * size:
        newest.insert(0, kept.pop())
        size += len(newest[0].rows)
    if len(newest) <= 1:
        return tuple(blocks)
    return (*kept, block([_occurrences_of(each) for each in newest]))


def _occurrences_of(postings: PostingsBlock) -> Occurrences:
    words = np.repeat(postings.words.astype(np.int64), np.diff(postings.starts))
    rows, counts = postings.rows.astype(np.int64), postings.counts.astype(np.int64)
    return Occurrences(words, rows, counts, np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """The statistics that scores need besides postings: `rows` is the number of live rows with words.

    `norms` is the length normalisation of each position. `gone` marks the positions of rows that are not live; None if
    all are live.
    """

    rows: int
    norms: NDArray[np.float64]
    gone: NDArray[np.bool_] | None


def corpus_statistics(lengths: NDArray[np.uint32], live: Positions) -> CorpusStatistics:
    """Compute the statistics of the rows at `live`. `lengths` has the number of words of every row, by position."""
    of_live = lengths[live]
    rows = int(np.count_nonzero(of_live))
    mean = float(of_live.sum(dtype=np.int64)) / rows if rows else 1.0
    gone = None
    if len(live) < len(lengths):
        gone = np.ones(len(lengths), np.bool_)
        gone[live] = False
    return CorpusStatistics(rows, BM25_K1 * (1 - BM25_B + BM25_B / mean * lengths.astype(np.float64)), gone)


def scores(blocks: Sequence[PostingsBlock], numbers: Sequence[int], now: CorpusStatistics, *, every: bool) -> Scores:
    """Return the scores of rows by position: 0 without any of the words, or, with `every`, if one is missing.

    A word that occurs twice in the query counts twice.
    """
    found = np.zeros(len(now.norms), np.float64)
    words_of_row = np.zeros(len(now.norms), np.uint32) if every else None
    for number in numbers:
        postings = [_live(each.rows[of], each.counts[of], now) for each in blocks if (of := each.of(number)).stop]
        having = sum(len(rows) for rows, _ in postings)
        weight = (BM25_K1 + 1) * np.log1p((now.rows - having + 0.5) / (having + 0.5))
        for rows, counts in postings:
            at = _places(rows)
            found[at] += weight * counts / (counts + now.norms[at])
            if words_of_row is not None:
                words_of_row[at] += 1
    if words_of_row is not None:
        found[words_of_row < len(numbers)] = 0
    return found


def _live(
    rows: NDArray[np.uint32], counts: NDArray[np.uint16], now: CorpusStatistics
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the postings of live rows."""
    if now.gone is None:
        return rows, counts
    live = ~now.gone[rows]
    return rows[live], counts[live]


def _places(rows: NDArray[np.uint32]) -> NDArray[np.uint32] | slice:
    """Return row positions; as a slice if adjacent, as for a word of every row, which takes a tenth of the time."""
    if not len(rows) or int(rows[-1]) - int(rows[0]) + 1 != len(rows) or not (rows[1:] > rows[:-1]).all():
        return rows
    return slice(int(rows[0]), int(rows[-1]) + 1)


def within(scores: Scores, passing: Passing) -> Scores:
    """Return the scores of the rows that pass, and 0 for all others."""
    return scores * passing


def best_positions(scores: Scores, limit: int) -> Positions:
    """Return the positions of the rows with the best scores, including all rows that tie with the last one."""
    if np.count_nonzero(scores > 0) > max(limit, COMMON_SHARE * len(scores)):
        return np.flatnonzero(scores >= kth_largest(scores, limit))
    found = np.flatnonzero(scores > 0)
    if len(found) <= limit:
        return found
    values = scores[found]
    return found[values >= kth_largest(values, limit)]


def known_numbers(vocabulary: Vocabulary, text: str, *, every: bool) -> list[int]:
    """Return the numbers of a query's words that some row has; none if `every` word is required and one is missing."""
    found = [vocabulary.number(folded(word)) for word in text.split()]
    known = [number for number in found if number is not None]
    return [] if every and len(known) < len(found) else known
