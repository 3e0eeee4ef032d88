"""What a process learns of the requests that a provider takes: few refusals, and soon the largest request."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import EmbeddingRefused, Excess
from worker.embed.learned import (
    FEWEST_TO_PROBE,
    REFUSED_TO_LEARN,
    Learned,
    RequestSizes,
    SizeLimit,
)

#: The texts of the largest request of a model.
MOST = 2048


def ask(limit: SizeLimit, most: int, requests: int, *, names_it: bool = False) -> list[int]:
    """Send requests to a server that takes `most` texts. Returns the sizes that were refused."""
    refused = []
    for _ in range(requests):
        size = limit.of(MOST)
        if size > most:
            refused.append(size)
            limit.note_refusal(size, most if names_it else None)
        else:
            limit.note_answer(size)
    return refused


@given(st.integers(1, MOST))
def test_few_requests_are_refused_until_the_largest_is_found(most: int) -> None:
    limit = SizeLimit()
    refused = ask(limit, most, 60)
    assert len(refused) <= 16
    assert limit.known.good <= most
    assert limit.known.good >= most * 0.9 - 1
    if limit.known.bad:
        assert len(ask(limit, most, FEWEST_TO_PROBE)) <= 2


@given(st.integers(1, MOST - 1))
def test_a_server_that_names_its_limit_refuses_once(most: int) -> None:
    limit = SizeLimit()
    assert ask(limit, most, FEWEST_TO_PROBE, names_it=True) == [MOST]
    assert limit.known == Learned(most, most + 1)


@pytest.mark.parametrize("names_it", [True, False])
def test_tries_for_more_become_rare(names_it: bool) -> None:
    limit = SizeLimit()
    ask(limit, 10, 60, names_it=names_it)
    assert len(ask(limit, 10, 4000, names_it=names_it)) <= 8


@pytest.mark.parametrize("names_it", [True, False])
def test_a_limit_that_rises_is_found_and_one_that_falls_is_obeyed(names_it: bool) -> None:
    limit = SizeLimit()
    ask(limit, 10, 30, names_it=names_it)
    ask(limit, 100, 10 * FEWEST_TO_PROBE, names_it=names_it)
    assert 90 <= limit.of(MOST) <= 101
    ask(limit, 10, 20, names_it=names_it)
    assert limit.of(MOST) <= 11


def sizes_after(*refusals: tuple[EmbeddingRefused, list[int]]) -> RequestSizes:
    sizes = RequestSizes()
    for refusal, tokens in refusals:
        sizes.note_refusal(refusal, tokens)
    return sizes


TEXTS, TOKENS, LENGTH, SIZE = (EmbeddingRefused("", excess=excess) for excess in Excess)


@pytest.mark.parametrize(
    ("refusal", "largest"),
    [
        (EmbeddingRefused("", excess=Excess.TEXTS, most=16), (16, 1000)),
        (TEXTS, (10, 1000)),
        (SIZE, (10, 1000)),
        (EmbeddingRefused(""), (10, 1000)),
        (TOKENS, (100, 50)),
        (LENGTH, (100, 1000)),
    ],
)
def test_a_refusal_makes_requests_smaller_in_what_was_too_much(
    refusal: EmbeddingRefused, largest: tuple[int, int]
) -> None:
    assert sizes_after((refusal, [5] * 40)).of(100, 1000) == largest


def test_an_unexplained_refusal_of_a_size_that_was_answered_is_for_a_text() -> None:
    sizes = RequestSizes()
    sizes.note_answer([5] * 40)
    sizes.note_refusal(EmbeddingRefused(""), [5] * 40)
    assert sizes.of(100, 1000) == (100, 1000)
    sizes.was_for_size(40)
    assert sizes.of(100, 1000)[0] < 40
    sizes.excuse(40)
    assert sizes.of(100, 1000) == (100, 1000)


def test_what_one_process_learned_another_obeys() -> None:
    one, other = sizes_after((TEXTS, [5] * 40), (TOKENS, [5] * 40)), RequestSizes()
    other.take(one.shared)
    assert (other.of(100, 1000), other.is_in_doubt) == (one.of(100, 1000), True)
    one.note_answer([5] * 10)
    other.take(one.shared)
    assert not other._texts.is_in_doubt
    other.take("")
    assert other.shared == one.shared


def test_texts_are_cut_unsent_once_several_that_were_not_longer_were_refused() -> None:
    sizes = RequestSizes()
    sizes.note_answer([100])
    for tokens in (90, *range(300, 300 + REFUSED_TO_LEARN - 1)):
        sizes.note_refusal(LENGTH, [tokens])
    assert sizes.shortest_refused == math.inf
    sizes.note_refusal(LENGTH, [400])
    assert sizes.shortest_refused == 300
    sizes.note_answer([350])
    assert sizes.shortest_refused == math.inf
