"""How likely the first hits of a search answer it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.search.rank.confidence import (
    COUNTED_CHUNKS,
    COUNTED_HITS,
    FITS,
    HIT_WEIGHTS,
    MAX_QUERY_WORDS,
    MAX_RUN,
    READ_HITS,
    USUAL_AGREEMENT,
    WEIGHTS,
    Evidence,
    HitTexts,
    confidence,
    features,
)

QUERY = "banana smoothie recipe"
FAR = Evidence(0.1, USUAL_AGREEMENT, False, HitTexts.of(["an HTTP library"]))


def found(query: str, *texts: str) -> dict[str, float]:
    return dict(features(query, replace(FAR, texts=HitTexts.of(texts))))


@pytest.mark.parametrize(
    "more",
    [
        {"nearest": 0.8},
        {"agreement": 1.0},
        {"is_defined": True},
        {"compared": 1},
        {"texts": HitTexts.of(["recipes: a smoothie of bananas"])},
    ],
    ids=lambda more: next(iter(more)),
)
def test_each_part_of_the_evidence_raises_the_confidence(more: dict[str, Any]) -> None:
    assert confidence(QUERY, FAR).fits < FITS
    assert confidence(QUERY, FAR).fits < confidence(QUERY, replace(FAR, **more)).fits < 1


def test_meaning_or_words_alone_are_enough() -> None:
    assert confidence(QUERY, replace(FAR, nearest=0.8)).fits > FITS
    assert confidence(QUERY, replace(FAR, texts=HitTexts.of(["recipes: a smoothie of bananas"]))).fits > FITS


@pytest.mark.parametrize(
    ("compared", "nearest", "fits"),
    [
        *((1, 0.16, False), (1, 0.18, True)),
        *((2, 0.22, False), (2, 0.24, True)),
        *((COUNTED_CHUNKS, 0.59, False), (COUNTED_CHUNKS, 0.61, True)),
        *((2 * COUNTED_CHUNKS, 0.59, False), (2 * COUNTED_CHUNKS, 0.61, True)),
    ],
)
def test_hits_may_answer_a_query_in_other_words(compared: int, nearest: float, fits: bool) -> None:
    texts = HitTexts.of(["thirty days of holiday"])
    sure = confidence("vacation", Evidence(nearest, 0.0, False, texts, compared=compared))
    assert (sure.fits >= FITS) is fits


def test_every_feature_has_a_weight() -> None:
    assert found(QUERY, "x").keys() == WEIGHTS.keys() | HIT_WEIGHTS.keys()


def test_a_hit_is_rather_the_answer_if_others_are_far_behind() -> None:
    near = replace(FAR, nearest=0.5)
    sure = confidence(QUERY, near)
    assert confidence(QUERY, replace(near, lead=0.5)).answers > sure.answers
    assert confidence(QUERY, replace(near, fifth=0.5)).answers < sure.answers
    # they say nothing about whether there is an answer at all
    assert confidence(QUERY, replace(near, lead=0.5, fifth=0.5)).fits == sure.fits


def test_a_name_that_is_defined_says_that_there_is_an_answer() -> None:
    defined = confidence(QUERY, replace(FAR, is_defined=True))
    assert (defined.fits > confidence(QUERY, FAR).fits, defined.answers) == (True, confidence(QUERY, FAR).answers)


def test_a_part_of_the_words_counts_in_part() -> None:
    every, some, none = (found(QUERY, text)["words"] for text in ("recipe: banana. smoothie", "banana", "x"))
    assert (every, none) == (1.0, 0.0)
    assert 0 < some < 1


def test_a_word_that_fewer_hits_have_counts_more() -> None:
    others = ["a banana"] * 3
    assert found("banana smoothie", "a smoothie", *others)["words"] > found("banana smoothie", *others)["words"]
    unread, uncounted = ["x"] * (COUNTED_HITS - 1), ["x"] * COUNTED_HITS
    common = found("banana smoothie", "a banana", *unread[1:], "a smoothie")["words"]
    assert common > found("banana smoothie", "a banana", *unread)["words"]
    assert found("banana smoothie", "a banana", *uncounted[1:], "a smoothie")["words"] == pytest.approx(
        found("banana smoothie", "a banana", *unread)["words"]
    )


@pytest.mark.parametrize("name", ["words", "run"])
def test_the_best_of_the_first_hits_counts(name: str) -> None:
    read = ["x"] * (READ_HITS - 1)
    assert found(QUERY, *read, QUERY)[name] == found(QUERY, QUERY)[name] == 1 if name == "words" else 3 / MAX_RUN
    assert found(QUERY, "x", *read, QUERY)[name] == 0


@pytest.mark.parametrize("query", ["how is it", "?"])
def test_a_query_without_words_to_find_goes_by_nearness(query: str) -> None:
    assert confidence(query, replace(FAR, texts=HitTexts.of(["x"]))).fits < FITS
    assert confidence(query, replace(FAR, texts=HitTexts.of(["x"]), nearest=0.5)).fits > FITS


def test_a_search_without_texts_has_no_words() -> None:
    assert found(QUERY)["words"] == found(QUERY)["run"] == 0


def test_words_count_in_the_singular_too() -> None:
    texts = ["a recipe: one banana"]
    assert found("recipes bananas", *texts)["words"] == found("recipe banana", *texts)["words"] == 1


def test_words_are_found_in_either_case() -> None:
    assert found("Banana", "BANANA bread") == found("banana", "banana bread")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("wifi", "the Wi-Fi is down"),
        ("Wi-Fi", "the wifi is down"),
        ("file_name", "a file_name of it"),
        ("ISO 27001", "by ISO 27001 alone"),
        ("soft\u00adhyphen", "a softhyphen"),
    ],
)
def test_words_are_found_in_either_spelling(query: str, text: str) -> None:
    assert found(query, text)["words"] == 1


def test_words_of_scripts_without_spaces_are_found_by_pairs_of_characters() -> None:
    text = "自然語言處理是人工智慧的一個領域"
    assert found("什么是自然語言", text)["words"] > found("什么是自然", text)["words"] > 0
    assert found("自然語言處理", text)["words"] == 1
    assert found("自然語言處理", text)["run"] == 1
    # three of six pairs, and no word beside them
    pairs, missing = 3 * math.log(3 / 2), 3 * math.log(2)
    assert found("什么是自然語言", "自然語言")["words"] == pytest.approx(pairs / (pairs + missing))
    assert found("wood 自然", "wood 自然")["words"] == 1
    assert found("wood 自然", text)["words"] < 1


@pytest.mark.parametrize(("after", "words"), [(MAX_QUERY_WORDS - 1, 1), (MAX_QUERY_WORDS, 0)])
def test_the_leading_pairs_of_a_long_query_count(after: int, words: int) -> None:
    others = "".join(chr(0x4E00 + number) for number in range(after))
    assert (found(f"{others}自然", "自然")["words"] > 0) is bool(words)


WORDS = st.sampled_from(["ant", "bee", "cow", "dog"])


def longest_run(query: list[str], text: list[str]) -> int:
    """By comparing every part of one with every part of the other."""
    parts = {tuple(text[start:end]) for start in range(len(text)) for end in range(start, len(text) + 1)}
    ends = ((start, end) for start in range(len(query)) for end in range(start, len(query) + 1))
    return max(end - start for start, end in [*ends, (0, 0)] if tuple(query[start:end]) in parts | {()})


@given(st.lists(WORDS, max_size=7), st.lists(st.lists(WORDS, max_size=9), max_size=READ_HITS))
def test_words_in_a_row_are_counted_in_the_best_hit(query: list[str], texts: list[list[str]]) -> None:
    longest = max((longest_run(query, text) for text in texts), default=0)
    assert found(" ".join(query), *map(" ".join, texts))["run"] == min(MAX_RUN, longest) / MAX_RUN


def test_a_part_of_a_word_is_no_word_of_a_row() -> None:
    assert found("open close", "reopen closed.txt")["run"] == 1 / MAX_RUN  # closed is a form of close
    assert found("open close", "reopen closet")["run"] == 0


@pytest.mark.parametrize(("before", "run"), [(MAX_QUERY_WORDS - 2, 2), (MAX_QUERY_WORDS - 1, 1)])
def test_a_row_is_searched_for_among_the_leading_words(before: int, run: int) -> None:
    query = " ".join([*(f"w{number}" for number in range(before)), "open", "close"])
    assert found(query, "open close")["run"] == run / MAX_RUN
