"""Summaries by `local/extractive`."""

from __future__ import annotations

import pytest

from worker.tokens.tokenizers import cl100k
from worker.tree import extractive
from worker.tree.extractive import summary

HARBOUR = [
    "The harbour of the town was closed by the storm. Nobody saw the comet.",
    "Ships wait outside the harbour until the storm ends. The storm closed the harbour of the town.",
    "The town repairs the harbour after each storm. A recipe for soup needs leeks, salt and patience.",
]


def tokens(text: str) -> int:
    return len(cl100k().starts(text))


def test_the_sentence_nearest_to_the_centre_is_chosen_first() -> None:
    assert summary(HARBOUR, 10) == "The storm closed the harbour of the town."


def test_a_sentence_with_the_same_words_is_not_repeated() -> None:
    text = summary(HARBOUR, 30)
    assert ("was closed by the storm" in text) != ("The storm closed the harbour" in text)


def test_a_sentence_with_the_same_words_as_an_earlier_choice_is_not_repeated() -> None:
    apart = ["The storm closed the harbour.", "The harbour closed the storm."]
    others = ["Soup needs leeks, salt and patience.", "Ships carry salt and leeks."]
    text = summary([*apart, *others], 26)
    assert all(other in text for other in others)
    assert (apart[0] in text) != (apart[1] in text)


def test_a_sentence_that_does_not_fit_leaves_room_for_a_shorter_one() -> None:
    assert summary(HARBOUR, 16) == "Nobody saw the comet. The storm closed the harbour of the town."


def test_a_sentence_that_is_broken_into_lines_is_one() -> None:
    assert summary(["The ship lies in\nport. Nobody saw the comet."]) == "The ship lies in port. Nobody saw the comet."


def test_a_sentence_of_too_few_words_says_nothing() -> None:
    assert summary(["Nobody saw it. Not now."]) == "Nobody saw it."


def test_of_too_many_sentences_those_at_equal_distances_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractive, "MAX_SENTENCES", 2)
    three = ["One ship waits here. Two ships wait there. Three ships sail away."]
    assert summary(three) == "One ship waits here. Three ships sail away."
    monkeypatch.setattr(extractive, "MAX_SENTENCES", 3)
    assert summary(three) == three[0]


def test_sentences_stand_in_the_order_of_the_texts() -> None:
    text = summary(HARBOUR)
    places = [text.index(part) for part in ("Nobody saw", "Ships wait", "The town repairs", "A recipe")]
    assert places == sorted(places)


def test_a_summary_has_a_maximum_length() -> None:
    long = ["word " * 3000]
    for most in (1, 12, 40):
        assert 0 < tokens(summary(HARBOUR, most)) <= most
        assert 0 < tokens(summary(long, most)) <= most


def test_equal_texts_give_equal_summaries() -> None:
    texts = [f"Report {number} tells of ship {number % 7} and cargo {number % 5}." for number in range(300)]
    assert summary(texts, 60) == summary(list(texts), 60)


def test_texts_without_sentences_are_joined() -> None:
    assert summary(["a, b", "1 2 3"]) == "a, b 1 2 3"
    assert summary([]) == summary([" \n "]) == ""
