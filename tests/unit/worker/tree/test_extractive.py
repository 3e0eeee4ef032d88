"""Summaries by `local/extractive`."""

from __future__ import annotations

from worker.tokens.tokenizers import cl100k
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


def test_texts_without_sentences() -> None:
    assert summary(["a, b", "1 2 3"]) == "a, b 1 2 3"
    assert summary([]) == summary([" \n "]) == ""
