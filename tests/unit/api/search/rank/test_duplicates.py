"""Near-duplicates among the first hits."""

from __future__ import annotations

import pytest

from api.search.rank.duplicates import near_duplicates

TEXT = "a chunk of some words that say what they say about the thing and so on, at length and in detail " * 2


@pytest.mark.parametrize(
    ("files", "repeated", "twins"),
    [
        ("aab", {1}, {0: [2], 2: [0]}),
        ("abc", set(), {0: [1, 2], 1: [0, 2], 2: [0, 1]}),
        ("aba", {2}, {0: [1], 1: [0]}),
        ("aaa", {1, 2}, {}),
    ],
)
def test_copies_fold_within_a_file_and_are_twins_in_others(
    files: str, repeated: set[int], twins: dict[int, list[int]]
) -> None:
    found = near_duplicates([(file, f"{TEXT} {number}") for number, file in enumerate(files)])
    assert (set(found.repeated), found.twins) == (repeated, twins)


@pytest.mark.parametrize(("others", "is_repeated"), [(9, True), (8, False)])
def test_chunks_with_nine_tenths_of_their_words_in_common_are_near_duplicates(others: int, is_repeated: bool) -> None:
    shared = " ".join(f"w{number}" for number in range(others))
    assert (1 in near_duplicates([("a", f"{shared} x"), ("a", shared)]).repeated) is is_repeated


def test_other_texts_stay() -> None:
    found = near_duplicates([("a", "something else altogether"), ("a", "and a third one"), ("a", TEXT)])
    assert (found.repeated, found.twins) == (frozenset(), {})
