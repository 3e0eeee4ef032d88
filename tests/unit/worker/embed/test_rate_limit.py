"""When a provider may be asked, in one process and in many, by a clock that only moves when somebody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

import numpy as np
import pytest
from redis import Redis

from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, EmbeddingUnavailable, LeaseLost
from worker.embed import Vectors
from worker.embed.circuit import LONGEST_BLOCK, OPEN_AFTER, SHARING, Alone, Leave, Ledger, Rate, Shared
from worker.embed.rate_limit import CALM, PATIENCE, SUCCESSES, Budget, Clock

UNLIMITED = Rate(None, None, 60)
NOWHERE = "redis://127.0.0.1:1/0"
ANSWER: Vectors = np.ones((1, 1), dtype=np.float32)


@dataclass
class Hours:
    """A clock; pausing moves it."""

    time: float = 1000.0

    def pause(self, seconds: float) -> None:
        self.time += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, self.pause)


@pytest.fixture
def hours() -> Hours:
    return Hours()


@pytest.fixture(params=["shared", "alone"])
def ledger(request: pytest.FixtureRequest, redis_url: str) -> Callable[[Rate], Ledger]:
    """A maker of ledgers of one name: those of a fleet, or one that stands for its process."""
    name = uuid4().hex
    one: dict[Rate, Ledger] = {}

    def make(rate: Rate = UNLIMITED) -> Ledger:
        if request.param == "shared":
            return Shared(redis_url, name, rate)
        return one.setdefault(rate, Alone(name, rate))

    return make


def test_nobody_waits_for_a_provider_that_works(ledger: Callable[..., Ledger]) -> None:
    assert ledger().ask("p", "a").wait == 0
    ledger().settled("a", alive=True)
    assert ledger().ask("p", "b").wait == 0


def test_what_one_is_told_all_obey(ledger: Callable[..., Ledger]) -> None:
    ledger().failed("a", 30, 1, "busy")
    leave = ledger().ask("p", "b")
    assert 29 < leave.wait < 31
    assert leave.reason == "busy"
    ledger().failed("c", 5, 1, "a shorter wait does not shorten it")
    assert ledger().ask("p", "b").wait > 29
    ledger().settled("d", alive=True)
    assert ledger().ask("p", "b").wait > 29, "an answer to what was begun before is no leave"


def test_few_failures_are_everybodys_own_affair(ledger: Callable[..., Ledger]) -> None:
    for _ in range(OPEN_AFTER - 1):
        ledger().failed("a", 0, OPEN_AFTER, "down")
    assert ledger().ask("p", "b").wait == 0
    ledger().settled("b", alive=True)
    ledger().failed("a", 0, OPEN_AFTER, "down")
    assert ledger().ask("p", "b").wait == 0
    for _ in range(OPEN_AFTER):
        ledger().failed("a", 0, OPEN_AFTER, "down")
    assert 0 < ledger().ask("p", "b").wait < 2


def test_what_fails_while_nobody_may_ask_counts_no_more(ledger: Callable[..., Ledger]) -> None:
    # all within the second that the first five cost
    for _ in range(2 * OPEN_AFTER):
        ledger().failed("a", 0, OPEN_AFTER, "down")
    assert 0 < ledger().ask("p", "b").wait < 2


def test_one_at_a_time_tries_whether_it_is_back(hours: Hours) -> None:
    ledger = Alone("n", UNLIMITED, lambda: hours.time)
    for _ in range(OPEN_AFTER):
        ledger.failed("a", 0, OPEN_AFTER, "down")
    hours.pause(1.1)
    assert ledger.ask("p", "first").wait == 0
    assert ledger.ask("p", "second").wait > 0
    assert ledger.ask("p", "first").wait == 0
    ledger.failed("first", 0, OPEN_AFTER, "down")
    assert 1.5 < ledger.ask("p", "second").wait < 3, "each further failure doubles the time"
    hours.pause(3)
    assert ledger.ask("p", "second").wait == 0
    ledger.settled("second", alive=True)
    assert ledger.ask("p", "third").wait == ledger.ask("p", "fourth").wait == 0
    for _ in range(20):
        hours.pause(2 * LONGEST_BLOCK)
        ledger.failed("a", 0, OPEN_AFTER, "down")
    assert LONGEST_BLOCK <= ledger.ask("p", "b").wait < LONGEST_BLOCK + 1


def test_one_at_a_time_tries_whether_it_is_back_of_the_whole_fleet(redis_url: str) -> None:
    name = uuid4().hex
    one, other = (Shared(redis_url, name, UNLIMITED) for _ in range(2))
    for _ in range(OPEN_AFTER):
        one.failed("a", 0, OPEN_AFTER, "down")
    with Redis.from_url(redis_url) as redis:
        redis.delete(f"foldex:{{{name}}}:blocked")  # as if the time were over
    assert one.ask("p", "first").wait == one.ask("p", "first").wait == 0
    assert other.ask("p", "second").wait > 0
    one.settled("first", alive=False)
    assert other.ask("p", "second").wait == 0
    other.settled("second", alive=True)
    assert one.ask("p", "third").wait == other.ask("p", "fourth").wait == 0


def test_a_budget_of_requests_is_one_for_all(ledger: Callable[..., Ledger]) -> None:
    rate = Rate(10, None, 60)
    assert [ledger(rate).spend("p", 1, 1) for _ in range(12)] == [True] * 10 + [False] * 2


def test_a_budget_of_tokens_is_one_for_all_and_lets_the_largest_request_through(ledger: Callable[..., Ledger]) -> None:
    rate = Rate(None, 1000, 60)
    assert [ledger(rate).spend("p", 400, 1) for _ in range(3)] == [True, True, False]
    assert ledger(rate).spend("p", 200, 1)
    small = Rate(None, 900, 60)
    assert ledger(small).spend("p", 5000, 1)


def test_a_project_keeps_to_its_share_while_others_ask(ledger: Callable[..., Ledger]) -> None:
    rate = Rate(10, None, 60)
    taken = [ledger(rate).spend("greedy", 1, 2) for _ in range(8)]
    assert taken == [True] * 5 + [False] * 3
    assert [ledger(rate).spend("modest", 1, 2) for _ in range(5)] == [True] * 5
    assert not ledger(rate).spend("third", 1, 3), "spent is spent"


def test_a_budget_nobody_else_wants_is_for_one(ledger: Callable[..., Ledger]) -> None:
    rate = Rate(10, None, 60)
    assert all(ledger(rate).spend("greedy", 1, 1) for _ in range(10))


def test_who_asked_a_moment_ago_is_active(ledger: Callable[..., Ledger]) -> None:
    assert ledger().ask("a", "1").active == 1
    assert ledger().ask("b", "2").active == 2
    assert ledger().ask("a", "3").active == 2
    assert ledger().ask("", "4").active == 2


@pytest.fixture
def budget(hours: Hours) -> Budget:
    """A budget of a process without Redis, for three requests a minute."""
    return Budget("m", uuid4().hex, Rate(3, None, 60), redis_url=NOWHERE, concurrency=4, clock=hours.clock)


def give(budget: Budget, **more: object) -> Vectors:
    return budget.call(lambda: ANSWER, project="p", tokens=1, **more)  # type: ignore[arg-type] # of this file's choice


def fail(budget: Budget, error: Exception) -> None:
    def send() -> Vectors:
        raise error

    with pytest.raises(type(error)):
        budget.call(send, project="p", tokens=1)


def test_redis_that_is_away_is_no_error(budget: Budget) -> None:
    assert give(budget) is ANSWER


def test_who_must_wait_long_gives_up_and_sends_nothing(budget: Budget, hours: Hours) -> None:
    for _ in range(3):
        give(budget)
    began = hours.time
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_RPM") as caught:
        give(budget)
    assert caught.value.data["gave_up"]
    assert hours.time - began <= PATIENCE


def test_waiting_ends_with_the_lease(budget: Budget) -> None:
    for _ in range(3):
        give(budget)
    looks = iter([None, None])

    def check() -> None:
        if next(looks, LeaseLost) is LeaseLost:
            raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        give(budget, check=check)


def test_retry_after_is_waited_out_and_told(budget: Budget, hours: Hours) -> None:
    fail(budget, EmbeddingUnavailable("busy", status_code=429, retry_after=3))
    began = hours.time
    give(budget)
    assert 3 <= hours.time - began < 4
    fail(budget, EmbeddingUnavailable("busy", status_code=503, retry_after=120))
    with pytest.raises(EmbeddingUnavailable, match="HTTP 503") as caught:
        give(budget)
    assert 119 < caught.value.data["retry_after"] < 121


def test_a_user_is_not_held_back_by_the_rate_but_by_a_block(budget: Budget, hours: Hours) -> None:
    for _ in range(5):
        assert budget.query(lambda: ANSWER, tokens=1) is ANSWER
    with pytest.raises(EmbeddingUnavailable):
        give(budget)
    fail_query = EmbeddingUnavailable("busy", status_code=429, retry_after=30)

    def send() -> Vectors:
        raise fail_query

    with pytest.raises(EmbeddingUnavailable):
        budget.query(send, tokens=1)
    with pytest.raises(EmbeddingUnavailable) as caught:
        budget.query(lambda: ANSWER, tokens=1)
    assert caught.value.data["gave_up"]


def test_a_user_hears_of_a_block_by_another_process_within_a_moment(redis_url: str, hours: Hours) -> None:
    name = uuid4().hex
    one, other = (Budget("m", name, UNLIMITED, redis_url=redis_url, concurrency=1, clock=hours.clock) for _ in range(2))
    assert one.query(lambda: ANSWER, tokens=1) is ANSWER
    fail(other, EmbeddingUnavailable("busy", status_code=429, retry_after=30))
    hours.pause(CALM)
    with pytest.raises(EmbeddingUnavailable) as caught:
        one.query(lambda: ANSWER, tokens=1)
    assert caught.value.data["gave_up"]


def test_a_success_forgets_failures_that_came_while_all_seemed_calm(redis_url: str, hours: Hours) -> None:
    name = uuid4().hex
    one, other = (Shared(redis_url, name, UNLIMITED), Shared(redis_url, name, UNLIMITED))
    budget = Budget("m", name, UNLIMITED, redis_url=redis_url, concurrency=1, clock=hours.clock)

    def send() -> Vectors:
        for _ in range(OPEN_AFTER - 1):
            one.failed("a", 0, OPEN_AFTER, "down")
        hours.pause(CALM)
        return ANSWER

    budget.query(send, tokens=1)
    assert other.ask("p", "b").failures == 0


def test_each_429_halves_what_is_in_flight_and_successes_bring_it_back(hours: Hours) -> None:
    budget = Budget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    fail(budget, EmbeddingUnavailable("busy", status_code=429, retry_after=1))
    assert budget.concurrency == 2
    fail(budget, EmbeddingUnavailable("busy", status_code=429, retry_after=1))
    fail(budget, EmbeddingUnavailable("busy", status_code=429, retry_after=1))
    assert budget.concurrency == 1
    for _ in range(SUCCESSES):
        give(budget)
    assert budget.concurrency == 2
    for _ in range(9 * SUCCESSES):
        give(budget)
    assert budget.concurrency == 4


def test_429s_to_requests_in_flight_together_count_once(hours: Hours) -> None:
    budget = Budget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    together = threading.Barrier(4)

    def busy() -> Vectors:
        together.wait(timeout=30)
        raise EmbeddingUnavailable("busy", status_code=429, retry_after=1)

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
    budget = Budget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    pauses = []
    for _ in range(4):
        error = EmbeddingUnavailable("no", status_code=500)
        fail(budget, error)
        pauses.append(error.data["retry_after"])
        hours.pause(error.data["retry_after"])
    for pause, longest in zip(pauses, (0.5, 1.0, 2.0, 4.0), strict=True):
        assert longest / 2 <= pause <= longest


@pytest.mark.parametrize("answer", [EmbeddingRefused("bad text"), EmbeddingUnauthorized("wrong key")])
def test_a_refusal_shows_that_the_provider_is_there(hours: Hours, answer: Exception) -> None:
    budget = Budget("m", uuid4().hex, UNLIMITED, redis_url=NOWHERE, concurrency=4, clock=hours.clock)
    for _ in range(OPEN_AFTER - 1):
        fail(budget, EmbeddingUnavailable("down", status_code=500))
    fail(budget, answer)
    # else this failure would be the one too many
    fail(budget, EmbeddingUnavailable("down", status_code=500))
    assert budget._alone.ask("p", "t") == Leave(0, failures=1)


def fleet(redis_url: str, rate: Rate, hours: Hours, number: int) -> list[Budget]:
    """Processes that have each used the budget, and then lost Redis."""
    name = uuid4().hex
    made = [Budget("m", name, rate, redis_url=redis_url, concurrency=1, clock=hours.clock) for _ in range(number)]
    for _ in range(2):
        for budget in made:
            budget._ask("p", uuid4().hex)
    for budget in made:
        budget._shared = Shared(NOWHERE, name, rate)
    return made


def spend(budget: Budget, tokens: int = 1) -> bool:
    return budget._use(lambda ledger: ledger.spend("p", tokens, 1))


@pytest.mark.parametrize(("number", "each"), [(1, 10), (2, 5), (3, 3), (10, 1), (11, 1)])
def test_without_redis_each_process_spends_an_equal_part(redis_url: str, hours: Hours, number: int, each: int) -> None:
    budgets = fleet(redis_url, Rate(10, None, 60), hours, number)
    assert [sum(spend(budget) for _ in range(12)) for budget in budgets] == [each] * number
    # so nobody has anything left until the window is over
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
    budget = Budget("m", "n", rate, redis_url=NOWHERE, concurrency=1, processes=5, clock=hours.clock)
    assert sum(spend(budget) for _ in range(12)) == 2


def test_processes_that_fell_silent_share_no_more(redis_url: str) -> None:
    name = uuid4().hex
    one, other = (Shared(redis_url, name, UNLIMITED) for _ in range(2))
    assert (one.ask("p", "a").sharing, other.ask("p", "b").sharing) == (1, 2)
    # queries take no part in the rate
    assert Shared(redis_url, name, UNLIMITED).ask("", "c").sharing == 2
    with Redis.from_url(redis_url) as redis:
        redis.zincrby(f"foldex:{{{name}}}:sharing", -SHARING - 1, one._process)
    assert other.ask("p", "d").sharing == 1


def test_a_minute_is_parted_where_it_can_be() -> None:
    assert Rate.per_minute(60, 600_000) == Rate(10, 100_000, 10)
    assert Rate.per_minute(3, 40_000) == Rate(3, 40_000, 60)
    assert Rate.per_minute(None, None) == Rate(None, None, 10)
