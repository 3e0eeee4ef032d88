"""Packing and sending of embedding requests, with fake embedders."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import count
from math import ceil
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import EmbeddingUnauthorized, EmbeddingUnavailable, LeaseLost, SliceOver
from tests.unit.worker.embed.lengths import Lengths, collect, run
from tests.unit.worker.embed.rates import NO_LIMITS
from worker.embed import Vectors
from worker.embed.batching import NICENESS, RequestTerms, embed_all, pack
from worker.embed.rate_limit import RateBudget
from worker.embed.rates import Rate
from worker.embed.retry import SLICE_RETRY_SECONDS


@given(st.lists(st.integers(0, 60), max_size=300), st.integers(1, 20), st.integers(50, 200))
def test_packing_holds_the_limits_and_loses_nothing(tokens: list[int], max_inputs: int, max_tokens: int) -> None:
    groups = pack(tokens, max_inputs, max_tokens)
    assert sorted(index for group in groups for index in group) == list(range(len(tokens)))
    for group in groups:
        assert group == sorted(group)
        assert len(group) <= max_inputs
        assert len(group) == 1 or sum(tokens[index] for index in group) <= max_tokens


@given(st.lists(st.integers(1, 512), min_size=1, max_size=3000))
def test_packing_chunks_needs_hardly_more_requests_than_the_least_possible(tokens: list[int]) -> None:
    least = max(ceil(len(tokens) / 200), ceil(sum(tokens) / 30_000))
    assert len(pack(tokens, 200, 30_000)) <= least * 1.02 + 1


def test_packing_large_texts_fills_earlier_requests() -> None:
    assert pack([60, 60, 40, 40], 10, 100) == [[0, 2], [1, 3]]
    assert pack([500, 1], 10, 100) == [[0], [1]]


def test_every_text_gets_its_own_vector() -> None:
    texts = ["x" * n for n in range(1, 40)]
    assert run(Lengths(), texts, concurrency=3) == {index: index + 1 for index in range(39)}


def test_equal_texts_are_sent_once() -> None:
    embedder = Lengths()
    assert run(embedder, ["aa", "b", "aa", "bad", "bad", "aa"]) == {0: 2, 1: 1, 2: 2, 3: None, 4: None, 5: 2}
    assert sum(batch.count("aa") for batch in embedder.requests) <= 2


def test_no_texts_need_no_request() -> None:
    embedder = Lengths()
    assert run(embedder, []) == {}
    assert embedder.requests == []


@pytest.mark.parametrize("names_them", [True, False])
def test_a_refused_text_fails_alone(names_them: bool) -> None:
    texts = [f"{'bad' if n % 11 == 3 else 'good'} {n}" for n in range(64)]
    embedder = Lengths(max_inputs=32, names_them=names_them)
    found = run(embedder, texts, concurrency=2)
    assert {texts[index] for index, value in found.items() if value is None} == {t for t in texts if "bad" in t}
    assert len(found) == 64
    if names_them:
        assert len(embedder.requests) == 4


def test_requests_are_in_flight_together() -> None:
    # each request waits until three have begun
    assert len(run(Lengths(max_inputs=1, meet=3), ["a", "bb", "ccc"], concurrency=3)) == 3


def test_after_an_error_nothing_is_begun_and_what_was_paid_for_comes_out() -> None:
    embedder = Lengths(max_inputs=1, meet=2)
    found: dict[int, float | None] = {}
    with pytest.raises(EmbeddingUnauthorized):
        collect(embed_all(embedder, ["good", "stop", "later", "latest"], [1] * 4, 2), found)
    assert found[0] == 4
    assert len(embedder.requests) <= 4
    assert "latest" not in [text for batch in embedder.requests for text in batch] or found[2] == 5


def test_an_error_at_once_stops_all() -> None:
    embedder = Lengths(max_inputs=1)
    with pytest.raises(EmbeddingUnauthorized):
        run(embedder, ["stop", "a", "b"])
    assert embedder.requests == [["stop"]]


def test_of_several_errors_the_first_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            raise EmbeddingUnauthorized("wrong key") if texts == ["first"] else EmbeddingUnavailable("busy")

    def one_by_one(requests: Iterable[Future[Vectors]], **_: str) -> tuple[list[Future[Vectors]], None]:
        first = next(iter(requests))
        first.exception()
        return [first], None

    monkeypatch.setattr("worker.embed.batching.wait", one_by_one)
    with pytest.raises(EmbeddingUnauthorized):
        run(Failing(max_inputs=1), ["first", "second"], concurrency=2)


def test_closing_the_iterator_stops_the_sending() -> None:
    embedder = Lengths(max_inputs=1)
    outcomes = embed_all(embedder, ["a", "bb", "ccc", "dddd", "eeeee"], [1] * 5, 1)
    next(outcomes)
    outcomes.close()
    assert len(embedder.requests) <= 2


def test_an_unavailable_provider_is_told_as_such() -> None:
    class Busy(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            raise EmbeddingUnavailable("busy", retry_after=3)

    with pytest.raises(EmbeddingUnavailable) as caught:
        run(Busy(), ["a"])
    assert caught.value.retry_after == 3


def test_a_cancel_stops_new_requests_and_keeps_what_came() -> None:
    embedder = Lengths(max_inputs=1)

    def check() -> None:
        if len(embedder.requests) == 2:
            raise LeaseLost("cancelled")

    found: dict[int, float | None] = {}
    outcomes = embed_all(embedder, ["a", "bb", "ccc", "dddd"], [1] * 4, 1, RequestTerms(check=check))
    with pytest.raises(LeaseLost):
        collect(outcomes, found)
    assert found == {0: 1, 1: 2}


def test_a_slice_ends_when_its_time_is_spent_but_never_without_progress() -> None:
    embedder = Lengths(max_inputs=1)
    texts, known = ["bad", "a", "bb", "bad too"], dict[int, float | None]()
    while len(known) < len(texts):
        left = [index for index in range(4) if index not in known]
        found: dict[int, float | None] = {}
        try:
            collect(embed_all(embedder, [texts[at] for at in left], [1] * len(left), 1, RequestTerms(seconds=0)), found)
        except SliceOver:
            # an answer, or a text that is refused for good
            assert len(found) == 1
        known |= {left[index]: value for index, value in found.items()}
    assert known == {0: None, 1: 1, 2: 2, 3: None}


def test_a_request_that_found_the_provider_busy_is_repeated() -> None:
    class Busy(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            self.requests.append(list(texts))
            if len(self.requests) % 2:
                raise EmbeddingUnavailable("busy", provider_status=429, retry_after=0.01)
            return np.array([[len(text)] for text in texts], dtype=np.float32)

    budget = RateBudget("m", "n", Rate(None, None, 10), redis_url="redis://127.0.0.1:1/0", concurrency=2)
    terms = RequestTerms(budget, "p")
    assert collect(embed_all(Busy(max_inputs=1), ["a", "bb", "ccc"], [1] * 3, 2, terms)) == {0: 1, 1: 2, 2: 3}


def test_a_repeated_request_comes_before_all_others() -> None:
    class BusyAtFirst(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            vectors = super().embed(texts)
            if len(self.requests) == 1:
                raise EmbeddingUnavailable("busy", provider_status=429, retry_after=0.01)
            return vectors

    embedder = BusyAtFirst(max_inputs=1)
    budget = Mock(call=lambda send, **_: send(), concurrency=1, **NO_LIMITS)
    collect(embed_all(embedder, ["a", "b", "c"], [1] * 3, 1, RequestTerms(budget, "p")))
    assert embedder.requests == [["a"], ["a"], ["b"], ["c"]]


def test_the_budget_bounds_the_requests_in_flight() -> None:
    class Slow(Lengths):
        in_flight = most = 0

        def embed(self, texts: Sequence[str]) -> Vectors:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            time.sleep(0.01)
            self.in_flight -= 1
            return super().embed(texts)

    embedder = Slow(max_inputs=1)
    budget = Mock(call=lambda send, **_: send(), concurrency=1, **NO_LIMITS)
    collect(embed_all(embedder, ["a", "b", "c"], [1] * 3, 3, RequestTerms(budget, "p")))
    assert embedder.most == 1


def test_a_provider_that_stays_away_is_given_up() -> None:
    class Away(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            self.requests.append(list(texts))
            raise EmbeddingUnavailable("away", provider_status=503, retry_after=60)

    embedder = Away(max_inputs=1)
    budget = RateBudget("m", "n", Rate(None, None, 10), redis_url="redis://127.0.0.1:1/0", concurrency=2)
    with pytest.raises(EmbeddingUnavailable) as caught:
        collect(embed_all(embedder, ["a", "bb", "ccc"], [1] * 3, 2, RequestTerms(budget, "p")))
    # a thread that asked for permission only then waits slightly longer, which spreads the waiting ones
    assert caught.value.retry_after == pytest.approx(60, abs=1)
    assert len(embedder.requests) <= 2


def test_a_request_is_charged_for_its_own_texts_to_its_project() -> None:
    charged: list[tuple[str, int]] = []

    def call(send: Callable[[], Vectors], *, project: str, tokens: int, **_: object) -> Vectors:
        charged.append((project, tokens))
        return send()

    budget = Mock(call=call, concurrency=1, **NO_LIMITS)
    collect(embed_all(Lengths(max_inputs=2), ["a", "b", "c"], [1, 2, 4], 1, RequestTerms(budget, "p")))
    assert charged == [("p", 3), ("p", 4)]


def test_a_slice_is_patient_anew_after_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unsteady(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            self.requests.append(list(texts))
            if len(self.requests) % 2:
                raise EmbeddingUnavailable("busy", provider_status=503, retry_after=0.01)
            return np.array([[len(text)] for text in texts], dtype=np.float32)

    moments = count(step=SLICE_RETRY_SECONDS)
    monkeypatch.setattr("worker.embed.batching.time", Mock(monotonic=lambda: next(moments)))
    budget = RateBudget("m", "n", Rate(None, None, 10), redis_url="redis://127.0.0.1:1/0", concurrency=1)
    texts = ["a", "bb", "ccc"]
    assert collect(embed_all(Unsteady(max_inputs=1), texts, [1] * 3, 1, RequestTerms(budget, "p"))) == {
        0: 1,
        1: 2,
        2: 3,
    }


def test_without_a_budget_no_request_is_repeated() -> None:
    class Away(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            self.requests.append(list(texts))
            raise EmbeddingUnavailable("away")

    embedder = Away()
    with pytest.raises(EmbeddingUnavailable):
        run(embedder, ["a"])
    assert embedder.requests == [["a"]]


class Held(Lengths):
    """Answers once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        assert self.let_go.wait(30)
        return super().embed(texts)


@pytest.mark.parametrize("error", [None, LeaseLost("gone"), ValueError("a bug")])
def test_other_work_is_done_while_a_request_takes_too_long_and_its_answer_counts(error: Exception | None) -> None:
    embedder, parts = Held(), iter([True, True, False])

    def work() -> bool:
        more = next(parts)
        if not more:
            embedder.let_go.set()
            if error:
                raise error
        return more

    found: dict[int, float | None] = {}
    outcomes = embed_all(embedder, ["a", "bb"], [1] * 2, 1, RequestTerms(seconds=0, meanwhile=work))
    if error:
        with pytest.raises(type(error), match=str(error)):
            collect(outcomes, found)
    else:
        collect(outcomes, found)
    assert (found, [*parts]) == ({0: 1, 1: 2}, [])


@pytest.mark.skipif(sys.platform != "linux", reason="install Linux: other systems know no niceness of threads")
@pytest.mark.parametrize(("is_free", "nicer"), [(True, NICENESS), (False, 0)])
def test_only_threads_that_compute_vectors_are_nicer(*, is_free: bool, nicer: int) -> None:
    budget = None if is_free else Mock(call=lambda send, **_: send(), concurrency=1, **NO_LIMITS)
    own, seen = os.getpriority(os.PRIO_PROCESS, 0), list[int]()

    class Noting(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return super().embed(texts)

    for _ in range(2):
        list(embed_all(Noting(), ["a", "b"], [1, 1], 1, RequestTerms(budget=budget)))
    assert seen == [own + nicer] * 2
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


def test_no_other_work_is_done_while_there_is_time() -> None:
    terms = RequestTerms(meanwhile=lambda: pytest.fail("there is time"))
    assert len(collect(embed_all(Lengths(), ["a", "bb"], [1] * 2, 1, terms))) == 2
