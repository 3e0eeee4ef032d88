"""Limiters of one process and of a fleet: what is told to one, all obey, and what one spends, all have spent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis

from tests.unit.worker.embed.rates import DOWN, UNLIMITED, Hours
from worker.embed.fleet import SHARING_SECONDS, FleetLimiter
from worker.embed.limiter import ACTIVE_SECONDS, Limiter, LocalLimiter
from worker.embed.rates import Rate, SpentRate
from worker.embed.retry import (
    BLOCK_SECONDS,
    FAILURE_MEMORY_SECONDS,
    FAILURES_TO_BLOCK,
    PROBE_SECONDS,
    QUOTA_SECONDS,
    Failure,
)


@pytest.fixture(params=["shared", "alone"])
def limiter(request: pytest.FixtureRequest, redis_url: str) -> Callable[[Rate], Limiter]:
    """Makes limiters of one name: those of a fleet, or one that stands for its process."""
    name = uuid4().hex
    one: dict[Rate, Limiter] = {}

    def make(rate: Rate = UNLIMITED) -> Limiter:
        if request.param == "shared":
            return FleetLimiter(redis_url, name, rate)
        return one.setdefault(rate, LocalLimiter(rate))

    return make


def test_nobody_waits_for_a_provider_that_works(limiter: Callable[..., Limiter]) -> None:
    assert limiter().request_permit("p", "a").wait == 0
    limiter().record_end("a", answered=True)
    assert limiter().request_permit("p", "b").wait == 0


def test_what_one_is_told_all_obey(limiter: Callable[..., Limiter]) -> None:
    limiter().record_failure("a", Failure(30, is_rate_limit=True, reason="busy"))
    permit = limiter().request_permit("p", "b")
    assert 29 < permit.wait < 31
    assert permit.reason == "busy"
    limiter().record_failure("c", Failure(5, is_rate_limit=True, reason="a shorter wait does not shorten it"))
    assert limiter().request_permit("p", "b").wait > 29
    limiter().record_end("d", answered=True)
    assert limiter().request_permit("p", "b").wait > 29, "an answer to what was begun before is no permit"


def test_few_failures_are_everybodys_own_affair(limiter: Callable[..., Limiter]) -> None:
    for _ in range(FAILURES_TO_BLOCK - 1):
        limiter().record_failure("a", DOWN)
    assert limiter().request_permit("p", "b").wait == 0
    limiter().record_end("b", answered=True)
    limiter().record_failure("a", DOWN)
    assert limiter().request_permit("p", "b").wait == 0
    for _ in range(FAILURES_TO_BLOCK):
        limiter().record_failure("a", DOWN)
    assert 0 < limiter().request_permit("p", "b").wait < 2


def test_a_request_without_an_answer_forgets_no_failure(limiter: Callable[..., Limiter]) -> None:
    for _ in range(FAILURES_TO_BLOCK - 1):
        limiter().record_failure("a", DOWN)
    limiter().record_end("b", answered=False)
    limiter().record_failure("a", DOWN)
    assert 0 < limiter().request_permit("p", "c").wait < 2


def probed_by_first(hours: Hours) -> LocalLimiter:
    """A limiter of a provider that failed, at which `first` tries whether it is back."""
    limiter = LocalLimiter(UNLIMITED, lambda: hours.time)
    for _ in range(FAILURES_TO_BLOCK):
        limiter.record_failure("a", DOWN)
    hours.pause(1.1)
    assert limiter.request_permit("p", "first").wait == 0
    return limiter


def test_who_tries_and_never_ends_holds_the_others_up_for_a_while_only(hours: Hours) -> None:
    limiter = probed_by_first(hours)
    hours.pause(PROBE_SECONDS - 1)
    assert limiter.request_permit("p", "second").wait > 0
    hours.pause(1)
    assert limiter.request_permit("p", "second").wait == 0


def test_what_fails_while_nobody_may_ask_counts_no_more(limiter: Callable[..., Limiter]) -> None:
    # all within the second that the first five cost
    for _ in range(2 * FAILURES_TO_BLOCK):
        limiter().record_failure("a", DOWN)
    assert 0 < limiter().request_permit("p", "b").wait < 2


def test_one_at_a_time_tries_whether_it_is_back(hours: Hours) -> None:
    limiter = probed_by_first(hours)
    assert limiter.request_permit("p", "second").wait > 0
    assert limiter.request_permit("p", "first").wait == 0
    limiter.record_failure("first", DOWN)
    assert 1.5 < limiter.request_permit("p", "second").wait < 3, "each further failure doubles the time"
    hours.pause(3)
    assert limiter.request_permit("p", "second").wait == 0
    limiter.record_end("second", answered=True)
    assert limiter.request_permit("p", "third").wait == limiter.request_permit("p", "fourth").wait == 0
    for _ in range(20):
        hours.pause(2 * BLOCK_SECONDS[-1])
        limiter.record_failure("a", DOWN)
    assert BLOCK_SECONDS[-1] <= limiter.request_permit("p", "b").wait < BLOCK_SECONDS[-1] + 1


def test_one_at_a_time_tries_whether_it_is_back_of_the_whole_fleet(redis_url: str) -> None:
    name = uuid4().hex
    one, other = (FleetLimiter(redis_url, name, UNLIMITED) for _ in range(2))
    for _ in range(FAILURES_TO_BLOCK):
        one.record_failure("a", DOWN)
    with Redis.from_url(redis_url) as redis:
        redis.delete(f"foldex:{{{name}}}:blocked")  # as if the time had elapsed
    assert one.request_permit("p", "first").wait == one.request_permit("p", "first").wait == 0
    assert other.request_permit("p", "second").wait > 0
    # the end of another request, begun before, lets nobody else try, and neither does its failure
    one.record_end("a", answered=False)
    assert other.request_permit("p", "second").wait > 0
    one.record_failure("a", DOWN)
    with Redis.from_url(redis_url) as redis:
        redis.delete(f"foldex:{{{name}}}:blocked")
    assert other.request_permit("p", "second").wait > 0
    one.record_end("first", answered=False)
    assert other.request_permit("p", "second").wait == 0
    other.record_failure("second", DOWN)
    with Redis.from_url(redis_url) as redis:
        redis.delete(f"foldex:{{{name}}}:blocked")
    assert one.request_permit("p", "first").wait == 0
    one.record_end("first", answered=False)
    assert other.request_permit("p", "second").wait == 0
    other.record_end("second", answered=True)
    assert one.request_permit("p", "third").wait == other.request_permit("p", "fourth").wait == 0


def test_each_failure_in_a_row_blocks_the_whole_fleet_for_longer(redis_url: str) -> None:
    name = uuid4().hex
    limiter = FleetLimiter(redis_url, name, UNLIMITED)
    blocks = []
    with Redis.from_url(redis_url) as redis:
        for _ in range(FAILURES_TO_BLOCK + len(BLOCK_SECONDS)):
            limiter.record_failure("a", DOWN)
            blocks.append(max(0, redis.pttl(f"foldex:{{{name}}}:blocked")) / 1000)
            redis.delete(f"foldex:{{{name}}}:blocked")  # as if the time had elapsed
    assert blocks == pytest.approx([0] * (FAILURES_TO_BLOCK - 1) + [1, 2, 4, 8, 16, 32, 60, 60], abs=0.5)


def test_a_429_blocks_at_once(limiter: Callable[..., Limiter]) -> None:
    limiter().record_failure("a", Failure(0, is_rate_limit=True, reason="busy"))
    assert 0 < limiter().request_permit("p", "b").wait < 2


def test_a_budget_of_requests_is_one_for_all(limiter: Callable[..., Limiter]) -> None:
    rate = Rate(10, None, 60)
    assert [limiter(rate).spend("p", 1, 1) for _ in range(12)] == [True] * 10 + [False] * 2


def test_a_budget_of_tokens_is_one_for_all_and_lets_the_largest_request_through(
    limiter: Callable[..., Limiter],
) -> None:
    rate = Rate(None, 1000, 60)
    assert [limiter(rate).spend("p", 400, 1) for _ in range(3)] == [True, True, False]
    assert limiter(rate).spend("p", 200, 1)
    small = Rate(None, 900, 60)
    assert limiter(small).spend("p", 5000, 1)


@pytest.mark.parametrize("rate", [Rate(3, None, 60), Rate(None, 3, 60)])
def test_what_is_spent_without_asking_counts_as_well(limiter: Callable[..., Limiter], rate: Rate) -> None:
    assert all(limiter(rate).spend("p", 1, 1, force=True) for _ in range(2))
    assert [limiter(rate).spend("p", 1, 1) for _ in range(2)] == [True, False]


def test_of_two_that_look_at_the_same_moment_one_spends(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, fits = threading.Barrier(2, timeout=30), SpentRate._fits

    def look(self: SpentRate, *cost: Any) -> bool:
        found = fits(self, *cost)
        looked.wait()
        return found

    monkeypatch.setattr(SpentRate, "_fits", look)
    name = uuid4().hex
    limiters = [FleetLimiter(redis_url, name, Rate(None, 100, 60)) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda limiter: limiter.spend("p", 60, 1), limiters)) == [False, True]


def test_a_project_keeps_to_its_share_while_others_ask(limiter: Callable[..., Limiter]) -> None:
    rate = Rate(10, None, 60)
    taken = [limiter(rate).spend("greedy", 1, 2) for _ in range(8)]
    assert taken == [True] * 5 + [False] * 3
    assert [limiter(rate).spend("modest", 1, 2) for _ in range(5)] == [True] * 5
    assert not limiter(rate).spend("third", 1, 3), "spent is spent"


def test_a_projects_share_of_tokens_is_counted_in_tokens(limiter: Callable[..., Limiter]) -> None:
    rate = Rate(None, 1000, 60)
    assert [limiter(rate).spend("greedy", tokens, 2) for tokens in (300, 300, 200, 1)] == [True, False, True, False]
    # one request beyond its share goes out if the project has spent nothing
    large = Rate(None, 1001, 60)
    assert [limiter(large).spend("modest", tokens, 2) for tokens in (600, 1)] == [True, False]


def test_a_budget_nobody_else_wants_is_for_one(limiter: Callable[..., Limiter]) -> None:
    rate = Rate(10, None, 60)
    assert all(limiter(rate).spend("greedy", 1, 1) for _ in range(10))


def test_who_asked_a_moment_ago_is_active(limiter: Callable[..., Limiter]) -> None:
    assert limiter().request_permit("a", "1").active_projects == 1
    assert limiter().request_permit("b", "2").active_projects == 2
    assert limiter().request_permit("a", "3").active_projects == 2
    assert limiter().request_permit("", "4").active_projects == 2


def test_projects_that_fell_silent_are_active_no_more(redis_url: str) -> None:
    name = uuid4().hex
    limiter = FleetLimiter(redis_url, name, UNLIMITED)
    limiter.request_permit("silent", "a")
    with Redis.from_url(redis_url) as redis:
        for silent, active in ((ACTIVE_SECONDS - 2, 2), (3, 1)):
            redis.zincrby(f"foldex:{{{name}}}:asking", -silent, "silent")
            assert limiter.request_permit("other", "b").active_projects == active


def test_projects_that_fell_silent_are_active_no_more_in_one_process(hours: Hours) -> None:
    limiter = LocalLimiter(UNLIMITED, lambda: hours.time)
    limiter.request_permit("silent", "a")
    for silent, active in ((ACTIVE_SECONDS - 1, 2), (1, 1)):
        hours.pause(silent)
        assert limiter.request_permit("other", "b").active_projects == active


def test_what_a_fleet_knows_is_forgotten_in_time(redis_url: str) -> None:
    name = uuid4().hex
    limiter = FleetLimiter(redis_url, name, UNLIMITED)
    for _ in range(FAILURES_TO_BLOCK):
        limiter.record_failure("a", DOWN)
    kept = {
        "asking": ACTIVE_SECONDS,
        "sharing": SHARING_SECONDS,
        "failures": FAILURE_MEMORY_SECONDS,
        "probe": PROBE_SECONDS,
    }
    with Redis.from_url(redis_url) as redis:
        redis.delete(f"foldex:{{{name}}}:blocked")  # as if the time had elapsed
        limiter.request_permit("p", "the one that tries")
        for part, seconds in kept.items():
            assert seconds - 3 < redis.pttl(f"foldex:{{{name}}}:{part}") / 1000 <= seconds, part


NO_QUOTA = Failure(QUOTA_SECONDS, is_rate_limit=False, reason="no quota left", has_no_quota=True)


def test_without_quota_all_wait_and_then_one_request_at_a_time_goes_out(limiter: Callable[[Rate], Limiter]) -> None:
    limited = limiter(UNLIMITED)
    assert not limited.request_permit("p", "first").has_no_quota
    limited.record_failure("first", NO_QUOTA)
    permit = limited.request_permit("p", "second")
    assert permit.wait >= QUOTA_SECONDS - 1
    assert (permit.has_no_quota, permit.reason, permit.failures >= FAILURES_TO_BLOCK) == (True, "no quota left", True)
    limited.record_end("second", answered=True)
    assert not limited.request_permit("p", "third").has_no_quota


def test_what_one_process_learned_of_sizes_all_others_are_told(redis_url: str) -> None:
    one, other = (FleetLimiter(redis_url, "learning", UNLIMITED) for _ in range(2))
    assert other.request_permit("p", "r").sizes == ""
    one.share_sizes("10 11 0 0 0 0")
    assert other.request_permit("p", "r").sizes == "10 11 0 0 0 0"
