"""Postings in memory: what a block holds, which blocks are merged, and how rows score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from worker.tokens.keywords import BM25_B, BM25_K1
from worker.vectors.lance.bm25 import (
    MAX_COUNT,
    MERGE_RATIO,
    Occurrences,
    PostingsBlock,
    best_positions,
    block,
    corpus_statistics,
    merged,
    scores,
)


def of(rows: range, count: int = 1) -> PostingsBlock:
    """Postings of one word in these rows."""
    positions = np.array(rows)
    ones = np.ones_like(positions)
    return block([Occurrences(0 * ones, positions, count * ones, ones)])


@pytest.mark.parametrize("count", [MAX_COUNT - 1, MAX_COUNT, MAX_COUNT + 1, 3 * MAX_COUNT])
def test_a_word_that_fills_a_row_counts_up_to_a_maximum(count: int) -> None:
    assert of(range(1), count).counts.tolist() == [min(count, MAX_COUNT)]


@pytest.mark.parametrize(("older", "blocks"), [(MERGE_RATIO * 3, 1), (MERGE_RATIO * 3 + 1, 2)])
def test_a_block_is_merged_with_newer_ones_that_have_a_fair_share_of_its_postings(older: int, blocks: int) -> None:
    found = merged([of(range(older)), of(range(older, older + 3))])
    assert len(found) == blocks
    assert [row for each in found for row in each.rows.tolist()] == list(range(older + 3))


def test_blocks_that_are_merged_count_together_against_older_ones() -> None:
    sizes = (4 * MERGE_RATIO, 3, 1)
    ends = np.cumsum(sizes).tolist()
    blocks = [of(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    # the second is too large for the last alone
    assert [len(each.rows) for each in merged(blocks)] == list(sizes)
    assert [len(each.rows) for each in merged([blocks[0], of(range(8, 10)), *blocks[2:]])] == [8, 3]
    assert [len(each.rows) for each in merged([blocks[0], of(range(8, 11)), of(range(11, 13))])] == [13]


def test_a_row_scores_by_its_words_whatever_the_blocks_and_deleted_rows() -> None:
    counts = [[1, 1, 3, 1, 1, 2, 1, 1], [0, 2, 0, 0, 1, 0, 0, 5], [0, 0, 0, 0, 0, 0, 4, 0]]
    lengths = np.array([4, 9, 3, 1, 7, 2, 5, 6], np.uint32)
    # batches of Arrow may come in any order
    blocks = [_block(counts, [0, 2, 1, 3, 4]), _block(counts, [7, 6, 5])]
    everywhere = np.arange(8)
    for live in (everywhere, everywhere[1:], everywhere[[0, 1, 4, 6]], everywhere[:0]):
        now = corpus_statistics(lengths, live)
        for asked in ([0], [0, 1], [1, 2], [2, 2, 0], []):
            for every in (False, True):
                found = scores(blocks, asked, now, every=every)
                assert found.tolist() == [_score(counts, lengths, live, asked, row, every=every) for row in range(8)]


def _block(counts: list[list[int]], rows: Sequence[int]) -> PostingsBlock:
    found = [(word, row, counts[word][row]) for word in range(len(counts)) for row in rows if counts[word][row]]
    words, positions, times = np.array(found).T
    return block([Occurrences(words, positions, times, np.empty(0, np.int64))])


def _score(
    counts: list[list[int]], lengths: np.ndarray, live: np.ndarray, asked: list[int], row: int, *, every: bool
) -> float:
    """The BM25 of a row, by its definition."""
    if row not in live or (every and not all(counts[word][row] for word in asked)):
        return 0.0
    mean, total = lengths[live].mean(), 0.0
    for word in asked:
        having = sum(counts[word][each] > 0 for each in live)
        weight = (BM25_K1 + 1) * np.log1p((len(live) - having + 0.5) / (having + 0.5))
        norm = BM25_K1 * (1 - BM25_B + BM25_B / mean * float(lengths[row]))
        total += weight * counts[word][row] / (counts[word][row] + norm)
    return total


@pytest.mark.parametrize("others", [0, 2, 100])
def test_the_best_rows_are_those_with_a_word_and_all_that_equal_the_last(others: int) -> None:
    found = np.append([0.0, 2.0, 1.0, 0.0, 1.0, 3.0], np.zeros(others))
    assert [best_positions(found, limit).tolist() for limit in (1, 2, 3, 4, 9)] == [
        [5],
        [1, 5],
        [1, 2, 4, 5],
        [1, 2, 4, 5],
        [1, 2, 4, 5],
    ]
