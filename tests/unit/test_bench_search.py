"""The search benchmark: its measures against values computed by hand, and labels that exist."""

from __future__ import annotations

from math import log2

import pytest

from api.stack.record import ROOT
from tests.bench.search.definitions import summary, words
from tests.bench.search.measures import means, ndcg, ranks, recall, reciprocal_rank
from tests.bench.search.messages import raised
from tests.bench.search.questions import Label, Passage, Question
from tests.bench.search.sets import ask_repo
from tests.bench.search.sources import without_docstrings

FOUND = [2, None, 4]


def test_a_label_is_found_at_its_first_passage() -> None:
    labels = [Label(path="a.py"), Label(path="b.py", contains="def b"), Label(path="c.py")]
    passages = [Passage("b.py", 1, "b"), Passage("a.py", 1, ""), Passage("a.py", 9, ""), Passage("b.py", 5, "def b()")]
    assert ranks(labels, passages) == [2, 4, None]


def test_a_passage_answers_one_label_at_most() -> None:
    labels = [Label(path="a.py", contains="one"), Label(path="a.py", contains="two")]
    assert ranks(labels, [Passage("a.py", 1, "one two"), Passage("a.py", 2, "two")]) == [1, 2]


def test_recall_is_the_share_of_labels_within_the_depth() -> None:
    assert [recall(FOUND, depth) for depth in (1, 2, 4)] == [0, pytest.approx(1 / 3), pytest.approx(2 / 3)]


def test_ndcg_is_the_gain_over_that_of_the_best_order() -> None:
    best = 1 + 1 / log2(3) + 1 / 2
    assert ndcg(FOUND, 10) == pytest.approx((1 / log2(3) + 1 / log2(5)) / best)
    assert ndcg(FOUND, 2) == pytest.approx((1 / log2(3)) / (1 + 1 / log2(3)))
    assert ndcg([1, 2, 3], 10) == pytest.approx(1)
    assert ndcg([None], 10) == 0


def test_the_reciprocal_rank_is_that_of_the_first_label_found() -> None:
    assert [reciprocal_rank(found) for found in (FOUND, [1], [None])] == [0.5, 1, 0]


def test_means_are_over_all_questions() -> None:
    assert means([[1], [None], [11], [2]]) == pytest.approx(
        {
            "recall@5": 0.5,
            "recall@10": 0.5,
            "recall@20": 0.75,
            "nDCG@10": (1 + 1 / log2(3)) / 4,
            "MRR": (1.5 + 1 / 11) / 4,
        }
    )


def test_the_questions_over_this_repository_are_many_and_each_is_asked_once() -> None:
    queries = [question.query for question in ask_repo()]
    assert len(queries) >= 70
    assert len(set(queries)) == len(queries)


@pytest.mark.parametrize("question", ask_repo(), ids=lambda question: question.query)
def test_every_label_is_in_this_repository(question: Question) -> None:
    for label in question.relevant:
        assert label.contains in (ROOT / label.path).read_text(), label


SOURCE = '''"""Module."""

class A:
    """Ünder."""

    def b(self):
        """Two
        lines."""
        return "kept"
'''
BARE = """...

class A:
    ...

    def b(self):
        ...
        return "kept"
"""


def test_docstrings_are_taken_away_and_nothing_else() -> None:
    assert without_docstrings(SOURCE) == BARE


@pytest.mark.parametrize(
    ("name", "parts"), [("TokenBucket", "token bucket"), ("parse_URL2", "parse url 2"), ("HTTPError", "http error")]
)
def test_words_of_an_identifier(name: str, parts: str) -> None:
    assert " ".join(words(name)) == parts


def test_a_docstring_is_asked_by_its_first_sentence_without_marks() -> None:
    assert (
        summary("Give the :class:`~a.Bucket` to\nwhom `it` belongs. Rest.\n\nMore.")
        == "Give the a.Bucket to whom it belongs."
    )


def test_messages_are_read_from_what_is_raised() -> None:
    source = 'raise errors.Full(f"the bucket {name!r}\\n  is full")\nraise Empty("empty: %s" % name)\nraise Odd(name)'
    assert list(raised(source)) == [("Full", "the bucket %s is full"), ("Empty", "empty: %s"), ("Odd", "")]
