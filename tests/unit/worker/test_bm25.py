"""Postings in memory: what a block holds, and which blocks are merged."""

from __future__ import annotations

import numpy as np
import pytest

from worker.vectors.lance.bm25 import MAX_COUNT, MERGE_RATIO, Occurrences, PostingsBlock, block, merged


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
