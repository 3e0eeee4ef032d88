"""What follows a failed or refused request, by values alone."""

from __future__ import annotations

import pytest

from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable
from worker.embed.retry import (
    FAILURES_TO_BLOCK,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    LONGEST_RETRY_AFTER_SECONDS,
    MAX_REFUSALS,
    SLICE_RETRY_SECONDS,
    SUCCESSES_TO_GROW,
    Failure,
    Pace,
    Patience,
    failure_of,
    split,
)

REFUSED = EmbeddingRefused("no")
DOWN = Failure(0, is_rate_limit=False, reason="")


@pytest.mark.parametrize(
    ("error", "retry_after", "failures_to_block", "reason"),
    [
        (EmbeddingUnavailable("", provider_status=429), 0, 1, "m is busy (HTTP 429)"),
        (EmbeddingUnavailable("", provider_status=429, retry_after=3), 3, 1, "m is busy (HTTP 429)"),
        (EmbeddingUnavailable("", provider_status=503, retry_after=3), 3, FAILURES_TO_BLOCK, "m is busy (HTTP 503)"),
        (EmbeddingUnavailable("", provider_status=500), 0, FAILURES_TO_BLOCK, "m has a fault (HTTP 500)"),
        (EmbeddingUnavailable(""), 0, FAILURES_TO_BLOCK, "m does not answer"),
        (
            EmbeddingUnavailable("", retry_after=1e9),
            LONGEST_RETRY_AFTER_SECONDS,
            FAILURES_TO_BLOCK,
            "m does not answer",
        ),
    ],
)
def test_a_failure_says_how_long_the_fleet_waits(
    error: EmbeddingUnavailable, retry_after: float, failures_to_block: int, reason: str
) -> None:
    failure = failure_of("m", error)
    assert (failure.retry_after, failure.failures_to_block, failure.reason) == (retry_after, failures_to_block, reason)


@pytest.mark.parametrize(
    ("batch", "refusal", "refusals", "refused", "batches"),
    [
        ([4], REFUSED, 1, [4], []),
        ([4, 7], REFUSED, 1, [], [[4], [7]]),
        ([4, 7, 9], REFUSED, 1, [], [[4, 7], [9]]),
        ([4, 7, 9], REFUSED, MAX_REFUSALS - 1, [], [[4, 7], [9]]),
        ([4, 7, 9], REFUSED, MAX_REFUSALS, [4, 7, 9], []),
        ([4, 7, 9], EmbeddingRefused("no", indices=[1]), 1, [7], [[4, 9]]),
        ([4, 7, 9], EmbeddingRefused("no", indices=[2, 0]), MAX_REFUSALS, [4, 9], [[7]]),
        ([4, 7], EmbeddingRefused("no", indices=[0, 1]), 1, [4, 7], []),
        ([4, 7, 9], EmbeddingUnreadable("few", vectors=0), 1, [], [[4, 7], [9]]),
        ([4, 7, 9], EmbeddingUnreadable("few", vectors=1), 1, [], [[4], [7], [9]]),
        ([4, 7, 9, 11, 12], EmbeddingUnreadable("few", vectors=2), 1, [], [[4, 7], [9, 11], [12]]),
        ([4, 7, 9, 11, 12], EmbeddingUnreadable("few", vectors=4), 1, [], [[4, 7, 9, 11], [12]]),
        ([4, 7, 9, 11, 12], EmbeddingUnreadable("many", vectors=5), 1, [], [[4, 7, 9], [11, 12]]),
        ([4], EmbeddingUnreadable("many", vectors=2), 1, [4], []),
    ],
)
def test_a_refused_request_is_split_until_the_refused_texts_are_alone(
    batch: list[int], refusal: EmbeddingRefused, refusals: int, refused: list[int], batches: list[list[int]]
) -> None:
    assert split(batch, refusal, refusals) == (refused, batches)


def test_a_request_is_repeated_while_the_wait_ends_within_the_patience() -> None:
    patience = Patience()
    assert patience.covers(EmbeddingUnavailable("", retry_after=1), now=100)
    assert patience.covers(EmbeddingUnavailable("", retry_after=0.9), now=99 + SLICE_RETRY_SECONDS)
    assert not patience.covers(EmbeddingUnavailable("", retry_after=1), now=99 + SLICE_RETRY_SECONDS)
    patience.succeeded()
    assert patience.covers(EmbeddingUnavailable("", retry_after=1), now=99 + SLICE_RETRY_SECONDS)
    assert not patience.covers(EmbeddingUnavailable("", retry_after=0.1, was_sent=False), now=100)


def test_a_process_has_at_least_one_request_in_flight_and_at_most_those_it_began_with() -> None:
    pace, busy = Pace(3), Failure(0, is_rate_limit=True, reason="")
    for now in range(1, 5):
        pace.failed(busy, began=now, now=now)
        assert 1 <= pace.concurrency < 3
    for _ in range(4 * SUCCESSES_TO_GROW):
        pace.succeeded()
    assert pace.concurrency == 3


def test_requests_that_failed_together_make_one_pause() -> None:
    pace = Pace(8)
    pauses = [pace.failed(DOWN, began=0, now=1 + number / 100) for number in range(6)]
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[0] <= FIRST_PAUSE_SECONDS


def test_a_process_pauses_no_longer_than_the_longest_pause() -> None:
    pace, now, pauses = Pace(4), 0.0, []
    for _ in range(12):
        pauses.append(pace.failed(DOWN, began=now, now=now))
        now += pauses[-1]
    assert pace.pause(now) == 0
    assert LONGEST_PAUSE_SECONDS / 2 <= max(pauses) <= LONGEST_PAUSE_SECONDS
    pace.succeeded()
    assert pace.failed(DOWN, began=now, now=now) < 1
