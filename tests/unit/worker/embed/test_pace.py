"""How long texts will take, by what was measured of earlier ones."""

from __future__ import annotations

import math

import pytest

from worker.embed.pace import HALF_LIFE_TOKENS, EmbeddingPace


def test_nothing_is_known_before_the_first_answer_and_after_a_failure() -> None:
    pace = EmbeddingPace()
    assert (pace.is_known, pace.seconds(1), pace.seconds(0)) == (False, math.inf, 0.0)
    pace.note_answer(1000, 2.0, first=0.5)
    assert (pace.is_known, pace.seconds(1000)) == (True, 2.0)
    pace.note_failure()
    assert (pace.is_known, pace.seconds(1)) == (False, math.inf)


@pytest.mark.parametrize(("tokens", "seconds"), [(1, 0.05), (6_000, 0.05), (8_000, 0.06), (1_000_000, 7.5)])
def test_few_texts_take_as_long_as_a_request_and_others_by_their_tokens(tokens: int, seconds: float) -> None:
    pace = EmbeddingPace()
    # a large batch of many requests says nothing bad of a small one
    pace.note_answer(2_000_000, 15.0, first=0.05)
    assert pace.seconds(tokens) == pytest.approx(seconds)


def test_the_latest_tokens_count_most() -> None:
    pace = EmbeddingPace()
    pace.note_answer(HALF_LIFE_TOKENS, 8.0, first=0.1)
    pace.note_answer(HALF_LIFE_TOKENS, 1.0, first=0.1)
    assert pace.seconds(HALF_LIFE_TOKENS) == pytest.approx((4.0 + 1.0) / 1.5)
    for _ in range(10):
        pace.note_answer(HALF_LIFE_TOKENS, 1.0, first=0.1)
    assert pace.seconds(HALF_LIFE_TOKENS) == pytest.approx(1.0, rel=0.01)


def test_small_texts_do_not_hide_how_fast_many_are_answered() -> None:
    pace = EmbeddingPace()
    pace.note_answer(1_000_000, 4.0, first=0.05)
    for _ in range(50):
        pace.note_answer(100, 0.05, first=0.05)
    assert pace.seconds(100_000) < 1.0
    # but a request that takes long counts at once
    pace.note_answer(100, 9.0, first=9.0)
    assert pace.seconds(1) == 9.0
