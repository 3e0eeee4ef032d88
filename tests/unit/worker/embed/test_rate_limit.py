"""When a provider may be called, in one process and in many, by a clock that moves only when somebody waits."""

from __future__ import annotations

import threading
from itertools import pairwise
from unittest.mock import Mock
from uuid import uuid4

import numpy as np
import pytest
from redis import Redis, RedisError
from structlog.testing import capture_logs

from schemas.errors import (
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    FoldexError,
    LeaseLost,
    LlmRefused,
)
from tests.unit.worker.embed.rates import DOWN, UNLIMITED, Hours
from worker.embed import Vectors
from worker.embed.fleet import SHARING_SECONDS, FleetLimiter
from worker.embed.limiter import Permit
from worker.embed.rate_limit import CALM_SECONDS, LEASE_CHECK_SECONDS, REDIS_PAUSE_SECONDS, RateBudget
from worker.embed.rates import Rate
from worker.embed.retry import (
    FAILURES_TO_BLOCK,
    FIRST_PAUSE_SECONDS,
    SLICE_RETRY_SECONDS,
    SUCCESSES_TO_GROW,
)

NOWHERE = "redis://127.0.0.1:1/0"
ANSWER: Vectors = np.ones((1, 1), dtype=np.float32)


@pytest.fixture
def budget(hours: Hours) -> RateBudget:
    """A budget of a process without Redis, for three requests a minute."""
    return RateBudget("m", uuid4().hex, Rate(3, None, 60), redis_url=NOWHERE, concurrency=4, clock=hours.clock)


def give(budget: RateBudget, **more: object) -> Vectors:
    return budget.call(lambda: ANSWER, project="p", tokens=1, **more)  # type: ignore[arg-type] # of this file's choice


def fail(budget: RateBudget, error: FoldexError) -> FoldexError:
    """What a caller gets of a request that fails with `error`."""

    def send() -> Vectors:
        raise error

    with pytest.raises(type(error)) as caught:
        budget.call(send, project="p", tokens=1)
    return caught.value


def test_redis_that_is_away_is_no_error(budget: RateBudget) -> None:
    assert give(budget) is ANSWER


def test_redis_that_is_away_is_not_asked_again_for_a_while(budget: RateBudget, hours: Hours) -> None:
    asked = Mock(side_effect=RedisError)
    budget._fleet = Mock(request_permit=asked, spend=asked, record_end=asked)
    for pause, times in ((REDIS_PAUSE_SECONDS - 0.1, 1), (0.1, 1), (0, 2)):
        give(budget)
        assert asked.call_count == times
        hours.pause(pause)


def test_who_must_wait_long_gives_up_and_sends_nothing(budget: RateBudget, hours: Hours) -> None:
    for _ in range(3):
        give(budget)
    began = hours.time
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_RPM") as caught:
        give(budget)
    assert not caught.value.was_sent
    assert hours.time - began <= SLICE_RETRY_SECONDS


def test_waiting_ends_with_the_lease(budget: RateBudget) -> None:
    for _ in range(3):
        give(budget)
    looks = iter([None, None])

    def check() -> None:
        if next(looks, LeaseLost) is LeaseLost:
            raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        give(budget, check=check)


def test_a_wait_that_ends_with_the_patience_is_waited_out(budget: RateBudget, hours: Hours) -> None:
    budget._local = Mock(request_permit=lambda *_: Permit(wait=max(0.0, 1010 - hours.time)), spend=lambda *_: True)
    with pytest.raises(EmbeddingUnavailable):
        give(budget, patience=9.5)
    assert give(budget, patience=10) is ANSWER
    assert hours.time == 1010


def test_the_lease_is_checked_often_during_a_long_wait(budget: RateBudget, hours: Hours) -> None:
    budget._local = Mock(request_permit=lambda *_: Permit(wait=max(0.0, 1003 - hours.time)), spend=lambda *_: True)
    looks: list[float] = []
    give(budget, check=lambda: looks.append(hours.time))
    assert max(later - earlier for earlier, later in pairwise(looks)) <= LEASE_CHECK_SECONDS


def test_each_absence_of_redis_is_told_once(budget: RateBudget, hours: Hours) -> None:
    here = Mock(request_permit=lambda *_: Permit(0), spend=lambda *_: True)
    asked = Mock(side_effect=RedisError)
    away = Mock(request_permit=asked, spend=asked, record_end=asked)
    with capture_logs() as logs:
        for fleet in (away, away, here, away):
            budget._fleet = fleet
            hours.pause(REDIS_PAUSE_SECONDS)
            give(budget)
    assert len([entry for entry in logs if entry["log_level"] == "warning"]) == 2


def test_retry_after_is_waited_out_and_told(budget: RateBudget, hours: Hours) -> None:
    told = fail(budget, EmbeddingUnavailable("busy", provider_status=429, retry_after=3))
    assert isinstance(told, EmbeddingUnavailable)
    assert (told.provider_status, told.retry_after) == (429, 3)
    began = hours.time
    give(budget)
    assert 3 <= hours.time - began < 4
    fail(budget, EmbeddingUnavailable("busy", provider_status=503, retry_after=120))
    with pytest.raises(EmbeddingUnavailable, match="HTTP 503") as caught:
        give(budget)
    assert caught.value.retry_after == pytest.approx(120, abs=1)


def test_a_user_is_not_held_back_by_the_rate_but_by_a_block(budget: RateBudget, hours: Hours) -> None:
    for _ in range(5):
        assert budget.query(lambda: ANSWER, tokens=1) is ANSWER
    with pytest.raises(EmbeddingUnavailable):
        give(budget)
    fail_query = EmbeddingUnavailable("busy", provider_status=429, retry_after=30)

    def send() -> Vectors:
        raise fail_query

    with pytest.raises(EmbeddingUnavailable):
        budget.query(send, tokens=1)
    with pytest.raises(EmbeddingUnavailable) as caught:
        budget.query(lambda: ANSWER, tokens=1)
    assert not caught.value.was_sent


def test_what_users_spend_beyond_the_rate_is_charged(hours: Hours) -> None:
    budget = RateBudget("m", uuid4().hex, Rate(None, 10, 60), redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    give(budget)
    assert budget.query(lambda: ANSWER, tokens=10) is ANSWER
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_TPM"):
        give(budget)


def test_a_user_hears_of_a_block_by_another_process_within_a_moment(redis_url: str, hours: Hours) -> None:
    name = uuid4().hex
    one, other = (
        RateBudget("m", name, UNLIMITED, redis_url=redis_url, concurrency=1, clock=hours.clock) for _ in range(2)
    )
    assert one.query(lambda: ANSWER, tokens=1) is ANSWER
    fail(other, EmbeddingUnavailable("busy", provider_status=429, retry_after=30))
    hours.pause(CALM_SECONDS)
    with pytest.raises(EmbeddingUnavailable) as caught:
        one.query(lambda: ANSWER, tokens=1)
    assert not caught.value.was_sent


def test_while_all_seems_calm_a_user_asks_nobody(redis_url: str, hours: Hours) -> None:
    name = uuid4().hex
    one, other = (
        RateBudget("m", name, UNLIMITED, redis_url=redis_url, concurrency=1, clock=hours.clock) for _ in range(2)
    )
    one.query(lambda: ANSWER, tokens=1)
    fail(other, EmbeddingUnavailable("busy", provider_status=429, retry_after=30))
    hours.pause(CALM_SECONDS / 2)
    assert one.query(lambda: ANSWER, tokens=1) is ANSWER


def test_a_success_forgets_failures_that_came_while_all_seemed_calm(redis_url: str, hours: Hours) -> None:
    name = uuid4().hex
    one, other = (FleetLimiter(redis_url, name, UNLIMITED), FleetLimiter(redis_url, name, UNLIMITED))
    budget = RateBudget("m", name, UNLIMITED, redis_url=redis_url, concurrency=1, clock=hours.clock)

    def send() -> Vectors:
        for _ in range(FAILURES_TO_BLOCK - 1):
            one.record_failure("a", DOWN)
        hours.pause(CALM_SECONDS)
        return ANSWER

    budget.query(send, tokens=1)
    assert other.request_permit("p", "b").failures == 0


def test_an_answer_to_a_user_forgets_the_failures_before_it(redis_url: str, hours: Hours) -> None:
    name = uuid4().hex
    fleet = FleetLimiter(redis_url, name, UNLIMITED)
    budget = RateBudget("m", name, UNLIMITED, redis_url=redis_url, concurrency=1, clock=hours.clock)
    for _ in range(FAILURES_TO_BLOCK - 1):
        fleet.record_failure("a", DOWN)
    budget.query(lambda: ANSWER, tokens=1)
    assert fleet.request_permit("p", "b").failures == 0


def test_each_429_halves_what_is_in_flight_and_successes_bring_it_back(hours: Hours) -> None:
    budget = RateBudget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    fail(budget, EmbeddingUnavailable("busy", provider_status=429, retry_after=1))
    assert budget.concurrency == 2
    fail(budget, EmbeddingUnavailable("busy", provider_status=429, retry_after=1))
    fail(budget, EmbeddingUnavailable("busy", provider_status=429, retry_after=1))
    assert budget.concurrency == 1
    for _ in range(SUCCESSES_TO_GROW):
        give(budget)
    assert budget.concurrency == 2
    for _ in range(9 * SUCCESSES_TO_GROW):
        give(budget)
    assert budget.concurrency == 4


def test_who_gives_up_before_sending_lets_others_try_whether_the_provider_is_back(hours: Hours) -> None:
    rate = Rate(FAILURES_TO_BLOCK, None, 600)
    budget = RateBudget("m", uuid4().hex, rate, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    for _ in range(FAILURES_TO_BLOCK):
        hours.pause(FIRST_PAUSE_SECONDS * 2**FAILURES_TO_BLOCK)
        fail(budget, EmbeddingUnavailable("down", provider_status=500))
    hours.pause(FIRST_PAUSE_SECONDS * 2**FAILURES_TO_BLOCK)
    # the provider may be asked, but the rate is spent
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_RPM"):
        give(budget)
    assert budget.query(lambda: ANSWER, tokens=1) is ANSWER


def test_who_waits_for_the_one_that_tries_is_told_of_which_model(hours: Hours) -> None:
    budget = RateBudget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    for _ in range(FAILURES_TO_BLOCK):
        hours.pause(FIRST_PAUSE_SECONDS * 2**FAILURES_TO_BLOCK)
        fail(budget, EmbeddingUnavailable("down", provider_status=500))
    hours.pause(FIRST_PAUSE_SECONDS * 2**FAILURES_TO_BLOCK)
    budget._local.request_permit("p", "the one that tries")
    with pytest.raises(EmbeddingUnavailable, match=r"^m failed repeatedly, and one request at a time .* retrying in"):
        give(budget)


def test_after_a_429_successes_are_counted_anew(hours: Hours) -> None:
    budget = RateBudget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    for _ in range(SUCCESSES_TO_GROW - 1):
        give(budget)
    fail(budget, EmbeddingUnavailable("busy", provider_status=429, retry_after=1))
    give(budget)
    assert budget.concurrency == 2


def test_429s_to_requests_in_flight_together_count_once(hours: Hours) -> None:
    budget = RateBudget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    together = threading.Barrier(4)

    def busy() -> Vectors:
        together.wait(timeout=30)
        raise EmbeddingUnavailable("busy", provider_status=429, retry_after=1)

    def send() -> None:
        with pytest.raises(EmbeddingUnavailable):
            budget.call(busy, project="p", tokens=1)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.concurrency == 2


def test_a_process_backs_off_longer_each_time(hours: Hours) -> None:
    budget = RateBudget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    pauses = []
    for _ in range(4):
        told = fail(budget, EmbeddingUnavailable("no", provider_status=500)).retry_after or 0.0
        pauses.append(told)
        hours.pause(told)
    for pause, longest in zip(pauses, (0.5, 1.0, 2.0, 4.0), strict=True):
        assert longest / 2 <= pause <= longest


@pytest.mark.parametrize(
    "answer", [EmbeddingRefused("bad text"), EmbeddingUnauthorized("wrong key"), LlmRefused("bad text")]
)
def test_a_refusal_shows_that_the_provider_is_there(hours: Hours, answer: FoldexError) -> None:
    budget = RateBudget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    for _ in range(FAILURES_TO_BLOCK - 1):
        fail(budget, EmbeddingUnavailable("down", provider_status=500))
    fail(budget, answer)
    # otherwise this failure would be one too many
    fail(budget, EmbeddingUnavailable("down", provider_status=500))
    assert budget._local.request_permit("p", "t") == Permit(0, failures=1)


def fleet(redis_url: str, rate: Rate, hours: Hours, number: int) -> list[RateBudget]:
    """Processes that have each used the budget, and then lost Redis."""
    name = uuid4().hex
    made = [RateBudget("m", name, rate, redis_url=redis_url, concurrency=1, clock=hours.clock) for _ in range(number)]
    for _ in range(2):
        for budget in made:
            budget._request_permit("p", uuid4().hex)
    for budget in made:
        budget._fleet = FleetLimiter(NOWHERE, name, rate)
    return made


def spend(budget: RateBudget, tokens: int = 1) -> bool:
    return budget._with_limiter(lambda limiter: limiter.spend("p", tokens, 1))


@pytest.mark.parametrize(("number", "each"), [(1, 10), (2, 5), (3, 3), (10, 1), (11, 1)])
def test_without_redis_each_process_spends_an_equal_part(redis_url: str, hours: Hours, number: int, each: int) -> None:
    budgets = fleet(redis_url, Rate(10, None, 60), hours, number)
    assert [sum(spend(budget) for _ in range(12)) for budget in budgets] == [each] * number
    # so nobody has any budget left until the window ends
    hours.pause(59)
    assert not any(spend(budget) for budget in budgets)
    hours.pause(1.1)
    assert all(spend(budget) for budget in budgets) == (number <= 10)


def test_without_redis_a_fleet_keeps_to_less_than_a_request_each(redis_url: str, hours: Hours) -> None:
    budgets = fleet(redis_url, Rate(3, None, 60), hours, 10)
    sent = 0
    for _ in range(600):
        sent += sum(spend(budget) for budget in budgets)
        hours.pause(1)
    assert sent == 3 * 10


def test_without_redis_requests_above_a_part_are_spent_in_full(redis_url: str, hours: Hours) -> None:
    budgets = fleet(redis_url, Rate(None, 1000, 10), hours, 5)
    sent = 0
    for _ in range(400):
        sent += 800 * sum(spend(budget, 800) for budget in budgets)
        hours.pause(1)
    assert sent == 1000 * 40


def test_a_process_that_never_saw_redis_takes_the_number_it_is_given(hours: Hours) -> None:
    rate = Rate(10, None, 60)
    budget = RateBudget("m", "n", rate, redis_url=NOWHERE, concurrency=1, processes=5, clock=hours.clock)
    assert sum(spend(budget) for _ in range(12)) == 2


def test_processes_that_fell_silent_share_no_more(redis_url: str) -> None:
    name = uuid4().hex
    one, other = (FleetLimiter(redis_url, name, UNLIMITED) for _ in range(2))
    assert (one.request_permit("p", "a").processes, other.request_permit("p", "b").processes) == (1, 2)
    # queries do not count towards the rate
    assert FleetLimiter(redis_url, name, UNLIMITED).request_permit("", "c").processes == 2
    with Redis.from_url(redis_url) as redis:
        for silent, processes in ((SHARING_SECONDS - 5, 2), (6, 1)):
            redis.zincrby(f"foldex:{{{name}}}:sharing", -silent, one._process_id)
            assert other.request_permit("p", "d").processes == processes


def test_a_minute_is_parted_where_it_can_be() -> None:
    assert Rate.per_minute(60, 600_000) == Rate(10, 100_000, 10)
    assert Rate.per_minute(3, 40_000) == Rate(3, 40_000, 60)
    assert Rate.per_minute(None, None) == Rate(None, None, 10)
    # less than one a window is one
    assert Rate.per_minute(60, 5) == Rate(10, 1, 10)
    assert Rate.per_minute(59, None) == Rate(59, None, 60)
