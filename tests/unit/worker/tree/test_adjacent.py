"""Clusters of texts that follow each other: where a folder is cut, and how large the runs are."""

from __future__ import annotations

import numpy as np
import pytest

from worker.tree.adjacent import MAX_FACTOR, gaps, neighbours

LEAST = 3


def cuts(count: int, wide: dict[int, float], least: int = LEAST) -> list[int]:
    """Where `count` texts are cut: after each of these numbers of texts. `wide` are the gaps that are not narrow."""
    gap = np.full(count - 1, 0.1, dtype=np.float32)
    gap[list(wide)] = list(wide.values())
    runs = neighbours(gap, least)
    assert [text for run in runs for text in run] == list(range(count))
    return [run.start for run in runs[1:]]


@pytest.mark.parametrize(
    ("gap", "expected"), [(LEAST - 2, []), (LEAST - 1, [LEAST]), (11 - LEAST, [12 - LEAST]), (12 - LEAST, [])]
)
def test_texts_are_cut_where_they_differ_most_but_not_near_an_end(gap: int, expected: list[int]) -> None:
    assert cuts(12, {gap: 0.5}) == expected


@pytest.mark.parametrize(
    ("wide", "expected"),
    [
        ({4: 0.5, 5: 0.4}, [5]),
        ({4: 0.4, 5: 0.5}, [6]),
        ({4: 0.4, 6: 0.5}, [7]),
        ({3: 0.4, 6: 0.5}, [4, 7]),
        ({4: 0.5, 5: 0.5}, [5]),
    ],
)
def test_of_gaps_that_are_near_each_other_the_widest_counts(wide: dict[int, float], expected: list[int]) -> None:
    assert cuts(12, wide) == expected


def test_a_run_that_is_too_long_is_split_at_its_widest_gap() -> None:
    most = MAX_FACTOR * LEAST
    assert cuts(most, {}) == []
    # the last gap is too near the end, and keeps the one before it from being a cut of its own
    assert cuts(most + 1, {most - 1: 0.9, most - LEAST: 0.5}) == [most - LEAST + 1]


def test_a_very_long_run_is_split_again_and_again() -> None:
    borders = [0, *cuts(200, {}), 200]
    sizes = np.diff(borders)
    assert sizes.min() >= LEAST
    assert sizes.max() <= MAX_FACTOR * LEAST


def test_borders_of_folders_outrank_those_of_files_and_these_all_texts() -> None:
    alike, unlike = 0.9, 0.0
    paths = ["a/x"] * 5 + ["a/y"] + ["b/y"] * 6
    similarities = [alike] * 4 + [unlike, alike] + [alike] * 5
    assert [run.start for run in neighbours(gaps(paths, similarities), LEAST)] == [0, 6]
    paths = ["a/x"] * 6 + ["a/y"] * 6
    assert [run.start for run in neighbours(gaps(paths, similarities), LEAST)] == [0, 6]
