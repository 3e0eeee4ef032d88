"""What follows a failed or refused request, by values alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable
from worker.embed.retry import (
    FAILURES_TO_BLOCK,
    FEWEST_TO_ENLARGE,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    LONGEST_RETRY_AFTER_SECONDS,
    MAX_REFUSALS,
    MOST_TO_ENLARGE,
    SLICE_RETRY_SECONDS,
    SLOW_SECONDS,
    SMALLEST_SHARE,
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
    assert split(batch, refusal, refusals, [1] * len(batch)) == (refused, batches)


def test_a_request_is_repeated_while_the_wait_ends_within_the_patience() -> None:
    patience = Patience()
    assert patience.covers(EmbeddingUnavailable("", retry_after=1), now=100)
    assert patience.covers(EmbeddingUnavailable("", retry_after=0.9), now=99 + SLICE_RETRY_SECONDS)
    assert not patience.covers(EmbeddingUnavailable("", retry_after=1), now=99 + SLICE_RETRY_SECONDS)
    patience.note_success()
    assert patience.covers(EmbeddingUnavailable("", retry_after=1), now=99 + SLICE_RETRY_SECONDS)
    assert not patience.covers(EmbeddingUnavailable("", retry_after=0.1, was_sent=False), now=100)


def test_a_process_has_at_least_one_request_in_flight_and_at_most_those_it_began_with() -> None:
    pace, busy = Pace(3), Failure(0, is_rate_limit=True, reason="")
    for now in range(1, 5):
        pace.note_failure(busy, began=now, now=now)
        assert 1 <= pace.concurrency < 3
    for _ in range(4 * SUCCESSES_TO_GROW):
        pace.note_success()
    assert pace.concurrency == 3


def test_requests_that_failed_together_make_one_pause() -> None:
    pace = Pace(8)
    pauses = [pace.note_failure(DOWN, began=0, now=1 + number / 100) for number in range(6)]
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[0] <= FIRST_PAUSE_SECONDS


def test_a_process_pauses_no_longer_than_the_longest_pause() -> None:
    pace, now, pauses = Pace(4), 0.0, []
    for _ in range(12):
        pauses.append(pace.note_failure(DOWN, began=now, now=now))
        now += pauses[-1]
    assert pace.pause(now) == 0
    assert LONGEST_PAUSE_SECONDS / 2 <= max(pauses) <= LONGEST_PAUSE_SECONDS
    pace.note_success()
    assert pace.note_failure(DOWN, began=now, now=now) < 1


#: Sizes from the largest request to the smallest.
DOUBLINGS = int(-log2(SMALLEST_SHARE))


@dataclass
class Server:
    """A server that answers requests up to a share of the largest one in time, and none during an outage."""

    limit: float = 1.0
    pace: Pace = field(default_factory=lambda: Pace(1))
    now: float = 0.0
    timeouts: int = 0

    def request(self, *, is_down: bool = False) -> None:
        began, share = self.now, self.pace.request_share
        assert SMALLEST_SHARE <= share <= 1
        if is_down or share > self.limit:
            self.now += SLOW_SECONDS
            self.timeouts += 1
            self.pace.note_failure(DOWN, began, self.now, share)
        else:
            self.now += 1
            self.pace.note_success()

    def answer(self, requests: int) -> None:
        for _ in range(requests):
            self.request()

    def go_down(self, requests: int) -> None:
        for _ in range(requests):
            self.request(is_down=True)


#: Limits of a server, each with the requests that meet it, and the requests of the outage after them.
PHASES = st.lists(
    st.tuples(st.integers(0, DOUBLINGS).map(lambda power: 2.0**-power), st.integers(0, 300), st.integers(0, 40)),
    max_size=5,
)


def after(phases: list[tuple[float, int, int]]) -> Server:
    """A server with this past."""
    server = Server()
    for limit, answered, lost in phases:
        server.limit = limit
        server.answer(answered)
        server.go_down(lost)
    return server


@given(PHASES, st.integers(0, DOUBLINGS), st.integers(1, 40))
def test_requests_are_soon_half_as_large_as_before_an_outage(
    phases: list[tuple[float, int, int]], power: int, lost: int
) -> None:
    server = after(phases)
    server.limit = 2.0**-power
    server.answer(MOST_TO_ENLARGE * (DOUBLINGS + 1))
    before = min(server.pace.request_share, server.limit)
    server.go_down(lost)
    server.answer(FEWEST_TO_ENLARGE * DOUBLINGS)
    assert server.pace.request_share >= before / 2


@given(PHASES, st.integers(0, DOUBLINGS))
def test_few_requests_are_too_large_for_a_server_that_stays_slow(
    phases: list[tuple[float, int, int]], power: int
) -> None:
    server = after(phases)
    server.limit = 2.0**-power
    settling = MOST_TO_ENLARGE * (DOUBLINGS + 1)
    server.answer(settling)
    server.timeouts = 0
    server.answer(10 * MOST_TO_ENLARGE)
    assert server.timeouts <= 10
    assert server.pace.request_share >= server.limit / 2


@given(PHASES)
def test_a_server_that_becomes_fast_gets_the_largest_requests(phases: list[tuple[float, int, int]]) -> None:
    server = after(phases)
    server.limit = 1.0
    server.answer(3 * MOST_TO_ENLARGE + 2 * FEWEST_TO_ENLARGE * DOUBLINGS)
    assert server.pace.request_share == 1.0
