"""Whom a fault of a server is blamed on, with a fake embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

import numpy as np
import pytest

from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable, LeaseLost
from tests.unit.worker.embed.rates import Hours
from worker.embed import Vectors
from worker.embed.batching import embed_all
from worker.embed.faults import HARMLESS_TEXT, HARMLESS_TOKENS, FaultFindingEmbedder, FurtherRequests
from worker.embed.provider import TIMEOUT_SECONDS
from worker.embed.rate_limit import RateBudget, no_check
from worker.embed.rates import Rate
from worker.embed.retry import DROPS_TO_REFUSE, FAULTS_TO_REFUSE, HARMLESS_TRIES, UNREADABLE_TO_REFUSE


class Faulty:
    """An embedder that fails as `fails` says of its requests, each a list of texts."""

    profile = EmbedderProfile(model="faulty", dimensions=1)
    max_request_tokens, max_inputs = 1000, 8

    def __init__(
        self, fails: Callable[[Sequence[str]], bool], status: int | None = 500, wait: float | None = None
    ) -> None:
        self._fails, self._status, self._wait = fails, status, wait
        self.requests: list[Sequence[str]] = []
        self.hours = Hours()

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.requests.append(texts)
        if self._fails(texts):
            raise EmbeddingUnavailable(
                "no", provider_status=self._status, retry_after=self._wait, was_taken=self._status is None
            )
        return np.array([[len(text)] for text in texts], dtype=np.float32)


class Queue(Faulty):
    """A server that needs `seconds` for each text, and whose client waits for `TIMEOUT_SECONDS`."""

    def __init__(self, seconds: Callable[[str], float]) -> None:
        super().__init__(self._is_late, None)
        self._seconds = seconds

    def _is_late(self, texts: Sequence[str]) -> bool:
        seconds = sum(map(self._seconds, texts))
        self.hours.pause(min(seconds, TIMEOUT_SECONDS))
        return seconds > TIMEOUT_SECONDS


def finding(embedder: Faulty, check: Callable[[], None] = no_check) -> FaultFindingEmbedder:
    return FaultFindingEmbedder(embedder, FurtherRequests(check), embedder.hours.clock)


def has_bad(texts: Sequence[str]) -> bool:
    return "bad" in texts


def test_a_text_at_which_the_server_fails_is_refused_alone() -> None:
    texts = [f"good {number}" for number in range(10)]
    texts.insert(5, "bad")
    outcomes = list(embed_all(finding(Faulty(has_bad)), texts, [1] * len(texts), 1))
    refused = [indices for indices, result in outcomes if isinstance(result, EmbeddingRefused)]
    assert refused == [[5]]
    assert sorted(index for indices, _ in outcomes for index in indices) == list(range(11))


def test_a_server_that_fails_at_everything_is_down() -> None:
    down = Faulty(lambda _: True)
    with pytest.raises(EmbeddingUnavailable):
        finding(down).embed(["good"])
    assert down.requests == [["good"], [HARMLESS_TEXT]]


def test_a_fault_that_passes_costs_nobody_his_vector() -> None:
    faults = iter([True, False] * (FAULTS_TO_REFUSE - 1) + [False])
    assert finding(Faulty(lambda _: next(faults))).embed(["good"]).tolist() == [[4]]


def test_a_text_at_which_the_server_closes_the_connection_is_refused_alone() -> None:
    texts = [f"good {number}" for number in range(10)]
    texts.insert(5, "bad")
    outcomes = list(embed_all(finding(Faulty(has_bad, None)), texts, [1] * len(texts), 1))
    refused = [(indices, str(result)) for indices, result in outcomes if isinstance(result, EmbeddingRefused)]
    assert [indices for indices, _ in refused] == [[5]]
    assert "does not answer this one" in refused[0][1]
    assert sorted(index for indices, _ in outcomes for index in indices) == list(range(11))


@pytest.mark.parametrize(("texts", "faults"), [(["bad"], DROPS_TO_REFUSE), (["good", "bad"], FAULTS_TO_REFUSE)])
def test_a_single_text_is_refused_after_more_closed_connections(texts: list[str], faults: int) -> None:
    server = Faulty(has_bad, None)
    with pytest.raises(EmbeddingRefused):
        finding(server).embed(texts)
    assert server.requests == [texts, [HARMLESS_TEXT]] * faults


def test_a_server_that_closes_every_connection_is_down() -> None:
    down = Faulty(lambda _: True, None)
    with pytest.raises(EmbeddingUnavailable):
        finding(down).embed(["good"])
    assert down.requests == [["good"], [HARMLESS_TEXT]]


def test_a_request_that_no_server_took_is_no_fault_of_its_text() -> None:
    class Unreachable(Faulty):
        def embed(self, texts: Sequence[str]) -> Vectors:
            self.requests.append(texts)
            raise EmbeddingUnavailable("no")

    away = Unreachable(has_bad)
    with pytest.raises(EmbeddingUnavailable):
        finding(away).embed(["bad"])
    assert away.requests == [["bad"]]


def test_a_network_that_closes_connections_by_chance_costs_nobody_his_vector() -> None:
    faults = iter([True, False] * (DROPS_TO_REFUSE - 1) + [False])
    assert finding(Faulty(lambda _: next(faults), None)).embed(["good"]).tolist() == [[4]]


def test_a_single_text_that_always_takes_too_long_is_refused() -> None:
    server = Queue(lambda text: 1000 if text == "bad" else 0.1)
    with pytest.raises(EmbeddingRefused, match="takes too long"):
        finding(server).embed(["bad"])
    assert server.requests == [["bad"], [HARMLESS_TEXT]] * FAULTS_TO_REFUSE


def test_several_texts_that_take_too_long_are_left_to_smaller_requests() -> None:
    server = Queue(lambda text: 1000 if text == "bad" else 0.1)
    with pytest.raises(EmbeddingUnavailable):
        finding(server).embed(["good", "bad"])
    assert server.requests == [["good", "bad"]]


def test_a_server_at_work_on_the_text_may_answer_another_after_it() -> None:
    waits = iter([1000, 30.0, 0.1] * FAULTS_TO_REFUSE)
    server = Queue(lambda _: next(waits))
    with pytest.raises(EmbeddingRefused):
        finding(server).embed(["bad"])
    assert server.requests == [["bad"], [HARMLESS_TEXT], [HARMLESS_TEXT]] * FAULTS_TO_REFUSE


@pytest.mark.parametrize("seconds", [59.0, 30.0, 7.0])
def test_an_overloaded_server_takes_long_for_every_text(seconds: float) -> None:
    server = Queue(lambda text: seconds if text == HARMLESS_TEXT else 70.0)
    with pytest.raises(EmbeddingUnavailable):
        finding(server).embed(["good"])
    assert server.requests == [["good"]] + [[HARMLESS_TEXT]] * HARMLESS_TRIES


@pytest.mark.parametrize(("status", "wait"), [(503, None), (502, None), (429, None), (500, 7.0)])
def test_only_a_fault_without_a_wait_may_be_a_texts(status: int, wait: float | None) -> None:
    busy = Faulty(has_bad, status, wait)
    with pytest.raises(EmbeddingUnavailable):
        finding(busy).embed(["bad"])
    assert busy.requests == [["bad"]]


def test_nothing_more_is_sent_once_the_work_is_unwanted() -> None:
    def unwanted() -> None:
        raise LeaseLost("cancelled")

    cancelled = Faulty(has_bad)
    with pytest.raises(LeaseLost):
        finding(cancelled, unwanted).embed(["bad"])
    assert cancelled.requests == [["bad"]]


@pytest.mark.parametrize(("rate", "most"), [(Rate(3, None, 60), 3), (Rate(None, 30, 60), 30)])
def test_repeats_and_harmless_texts_keep_to_the_rate(rate: Rate, most: int) -> None:
    sent: list[tuple[float, int]] = []

    class Counted(Faulty):
        def embed(self, texts: Sequence[str]) -> Vectors:
            amount = 1 if rate.tokens is None else sum(tokens.get(text, HARMLESS_TOKENS) for text in texts)
            sent.append((self.hours.time, amount))
            return super().embed(texts)

    tokens = {"good": 4, "bad": 10}
    server = Counted(has_bad)
    clock = server.hours.clock
    budget = RateBudget("m", uuid4().hex, rate, redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=clock)
    embedder = FaultFindingEmbedder(server, FurtherRequests(no_check, budget, "p", tokens), clock)
    with pytest.raises(EmbeddingRefused):
        budget.call(lambda: embedder.embed(["bad"]), project="p", tokens=10)
    assert len(sent) == 2 * FAULTS_TO_REFUSE
    for began, _ in sent:
        assert sum(amount for at, amount in sent if began <= at < began + rate.window) <= most


def test_a_wait_for_the_rate_does_not_make_a_harmless_text_late() -> None:
    server = Queue(lambda text: 1000 if text == "bad" else 0.1)
    clock, rate = server.hours.clock, Rate(1, None, 60)
    budget = RateBudget("m", uuid4().hex, rate, redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=clock)
    embedder = FaultFindingEmbedder(server, FurtherRequests(no_check, budget, "p", {"bad": 1}), clock)
    with pytest.raises(EmbeddingRefused):
        budget.call(lambda: embedder.embed(["bad"]), project="p", tokens=1)
    assert server.requests == [["bad"], [HARMLESS_TEXT]] * FAULTS_TO_REFUSE


def test_a_wait_for_the_rate_ends_once_the_work_is_unwanted() -> None:
    server, checks = Faulty(has_bad), iter([None, None, LeaseLost("cancelled")])

    def check() -> None:
        if error := next(checks):
            raise error

    clock, rate = server.hours.clock, Rate(1, None, 60)
    budget = RateBudget("m", uuid4().hex, rate, redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=clock)
    embedder = FaultFindingEmbedder(server, FurtherRequests(check, budget, "p", {"bad": 1}), clock)
    with pytest.raises(LeaseLost):
        budget.call(lambda: embedder.embed(["bad"]), project="p", tokens=1)
    assert server.requests == [["bad"]]


class Unusable(Faulty):
    """A server whose answers cannot be used if `fails` says so."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.requests.append(texts)
        if self._fails(texts):
            raise EmbeddingUnreadable("not readable")
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def test_a_text_whose_answer_cannot_be_used_is_refused_alone_after_a_second_try() -> None:
    texts = [f"good {number}" for number in range(10)]
    texts.insert(5, "bad")
    server = Unusable(has_bad)
    outcomes = list(embed_all(finding(server), texts, [1] * len(texts), 1))
    assert [indices for indices, result in outcomes if isinstance(result, EmbeddingRefused)] == [[5]]
    assert [list(texts) for texts in server.requests].count(["bad"]) == UNREADABLE_TO_REFUSE


def test_a_server_none_of_whose_answers_can_be_used_is_down() -> None:
    down = Unusable(lambda _: True)
    with pytest.raises(EmbeddingUnavailable, match="not readable"):
        finding(down).embed(["good", "fine"])
    assert down.requests == [["good", "fine"], [HARMLESS_TEXT]]
