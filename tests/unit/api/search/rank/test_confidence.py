"""How likely the first hits of a search answer it."""

from __future__ import annotations

import pytest

from api.search.rank.confidence import FITS, READ_HITS, confidence

QUERY = "banana smoothie recipe"


def test_shared_words_and_nearness_each_raise_the_confidence() -> None:
    far, near = confidence(QUERY, 0.1, ["an HTTP library"]), confidence(QUERY, 0.8, ["an HTTP library"])
    in_words = confidence(QUERY, 0.1, ["recipes: a smoothie of bananas"])
    assert far < FITS < near < confidence(QUERY, 0.8, ["recipes: a smoothie of bananas"])
    assert far < FITS < in_words


def test_a_part_of_the_words_counts_in_part() -> None:
    every, some, none = (confidence(QUERY, 0.2, [text]) for text in ("banana smoothie recipe", "banana", "x"))
    assert none < some < every


def test_the_best_of_the_first_hits_counts() -> None:
    good = "banana smoothie recipe"
    read = ["x"] * (READ_HITS - 1)
    assert confidence(QUERY, 0.2, [*read, good]) == confidence(QUERY, 0.2, [good])
    assert confidence(QUERY, 0.2, ["x", *read, good]) == confidence(QUERY, 0.2, ["x"])


@pytest.mark.parametrize("query", ["how is it", "?"])
def test_a_query_without_words_to_find_goes_by_nearness(query: str) -> None:
    assert confidence(query, 0.1, ["x"]) < FITS < confidence(query, 0.4, ["x"])


def test_words_count_in_the_singular_too() -> None:
    texts = ["a recipe: one banana"]
    assert confidence("recipes bananas", 0.2, texts) == confidence("recipe banana", 0.2, texts) > FITS


def test_words_are_found_in_either_case() -> None:
    assert confidence("Banana", 0.2, ["BANANA bread"]) == confidence("banana", 0.2, ["banana bread"])
