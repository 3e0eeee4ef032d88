"""Packing and sending of embedding requests, with fake embedders."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import count
from math import ceil
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.content.source import EmbedderProfile
from schemas.errors import (
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    EmbeddingUnreadable,
    Excess,
    LeaseLost,
    SliceOver,
)
from tests.unit.worker.embed.rates import NO_LIMITS, UNLIMITED, Hours
from worker.embed import Vectors
from worker.embed.batching import FREE, NICENESS, Outcome, RequestTerms, embed_all, pack
from worker.embed.rate_limit import RateBudget
from worker.embed.rates import Rate
from worker.embed.retry import (
    MAX_REFUSALS,
    MAX_UNREADABLE,
    MOST_TO_ENLARGE,
    SLICE_RETRY_SECONDS,
    TimeSource,
)


class Lengths:
    """An embedder whose vector of a text is its length. It rejects "bad" and is stopped by "stop"."""

    profile = EmbedderProfile(model="lengths", dimensions=1)
    max_request_tokens: int = 1000

    def __init__(self, max_inputs: int = 4, *, names_them: bool = False, meet: int = 1) -> None:
        self.max_inputs = max_inputs
        self.requests: list[list[str]] = []
        self._names_them = names_them
        self._meet = threading.Barrier(meet)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.requests.append(list(texts))
        self._meet.wait(timeout=30)
        bad = [index for index, text in enumerate(texts) if "bad" in text]
        if bad:
            raise EmbeddingRefused("no", indices=bad if self._names_them else ())
        if "stop" in texts:
            raise EmbeddingUnauthorized("wrong key")
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def run(embedder: Lengths, texts: Sequence[str], concurrency: int = 1) -> dict[int, float | None]:
    """Index to value, None for a rejected text. An index that is returned twice fails."""
    return collect(embed_all(embedder, texts, [1] * len(texts), concurrency))


def collect(outcomes: Iterable[Outcome], into: dict[int, float | None] | None = None) -> dict[int, float | None]:
    found: dict[int, float | None] = {} if into is None else into
    for indices, result in outcomes:
        values = [None] * len(indices) if isinstance(result, EmbeddingRefused) else result[:, 0].tolist()
        for index, value in zip(indices, values, strict=True):
            assert index not in found
            found[index] = value
    return found


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


@pytest.mark.parametrize("concurrency", [1, 4])
def test_requests_shrink_until_a_slow_server_answers_in_time_and_grow_again(hours: Hours, concurrency: int) -> None:
    seconds_per_text = 1.0

    too_large: list[int] = []

    class Slow(Lengths):
        max_request_tokens = 1 << 16

        def embed(self, texts: Sequence[str]) -> Vectors:
            needed = len(texts) * seconds_per_text
            hours.time += min(60.0, needed)
            if needed > 60:
                too_large.append(len(texts))
                raise EmbeddingUnavailable("m does not answer")
            return super().embed(texts)

    server = Slow(max_inputs=1 << 16)
    budget = RateBudget(
        "m", "n", UNLIMITED, redis_url="redis://127.0.0.1:1/0", concurrency=concurrency, clock=hours.clock
    )

    def embed_in_slices(texts: Sequence[str]) -> None:
        slices, left = 0, list(texts)
        while left:
            slices, done = slices + 1, set[int]()
            try:
                for indices, _ in embed_all(server, left, [1] * len(left), concurrency, RequestTerms(budget, "p")):
                    done |= {*indices}
            except EmbeddingUnavailable as error:
                hours.time += error.retry_after or 0
            assert slices < 100
            left = [text for index, text in enumerate(left) if index not in done]

    embed_in_slices([f"slow {number}" for number in range(1024)])
    # halved from what was sent, which is far less than the largest request
    assert list(dict.fromkeys(too_large)) == [1024, 512, 256, 128, 64]
    assert max(map(len, server.requests)) == 32
    assert Counter(text for request in server.requests for text in request).most_common(1)[0][1] == 1
    seconds_per_text = 0.001
    for number in range(MOST_TO_ENLARGE):
        embed_in_slices([f"fast {number} {each}" for each in range(1024)])
    assert len(server.requests[-1]) == 1024


def test_a_request_fits_into_the_budget() -> None:
    embedder = Lengths(max_inputs=100)
    moments = count(step=0.1)
    clock = TimeSource(lambda: next(moments), lambda _: None)
    budget = RateBudget("m", "n", Rate(None, 30, 10), redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=clock)
    collect(embed_all(embedder, [f"{n}" for n in range(10)], [3] * 10, 1, RequestTerms(budget, "p")))
    assert [len(batch) for batch in embedder.requests] == [10]
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_TPM"):
        collect(embed_all(embedder, [f"x{n}" for n in range(20)], [3] * 20, 1, RequestTerms(budget, "p")))


def test_a_request_is_charged_for_its_own_texts_to_its_project() -> None:
    charged: list[tuple[str, int]] = []

    def call(send: Callable[[], Vectors], *, project: str, tokens: int, **_: object) -> Vectors:
        charged.append((project, tokens))
        return send()

    budget = Mock(call=call, concurrency=1, **NO_LIMITS)
    collect(embed_all(Lengths(max_inputs=2), ["a", "b", "c"], [1, 2, 4], 1, RequestTerms(budget, "p")))
    assert charged == [("p", 3), ("p", 4)]


def test_no_request_has_more_tokens_than_the_budget_of_a_minute() -> None:
    embedder = Lengths(max_inputs=100)
    moments = count(step=0.1)
    clock = TimeSource(lambda: next(moments), lambda _: None)
    budget = RateBudget("m", "n", Rate(None, 30, 10), redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=clock)
    found: dict[int, float | None] = {}
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_TPM"):
        collect(embed_all(embedder, [f"{n}" for n in range(20)], [3] * 20, 1, RequestTerms(budget, "p")), found)
    assert [len(batch) for batch in embedder.requests] == [10]
    assert sorted(found) == list(range(10))


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


def test_parts_of_a_refused_request_come_in_its_order_before_all_others() -> None:
    embedder = Lengths(max_inputs=4)
    run(embedder, ["a", "b", "c", "bad", "e", "f"])
    assert embedder.requests == [["a", "b", "c", "bad"], ["a", "b"], ["c", "bad"], ["c"], ["bad"], ["e", "f"]]


def test_texts_that_fill_no_request_wait_for_more() -> None:
    embedder = Lengths(max_inputs=20)
    texts = [f"text {n}" for n in range(50)]
    found = collect(embed_all(embedder, texts, [1] * 50, 1, RequestTerms(only_full=True)))
    assert sorted(found) == list(range(40))
    assert collect(embed_all(embedder, texts[40:], [1] * 10, 1)) == {n: len("text 40") for n in range(10)}
    assert [len(batch) for batch in embedder.requests] == [20, 20, 10]
    assert len(collect(embed_all(embedder, texts[:19], [1] * 19, 1, RequestTerms(only_full=True)))) == 19


@pytest.mark.parametrize(("size", "is_sent"), [(94, False), (95, True), (100, True)])
def test_texts_with_almost_all_tokens_of_a_request_fill_it(size: int, is_sent: bool) -> None:
    embedder = Lengths(max_inputs=20)
    found = collect(embed_all(embedder, ["a", "bb"], [size * 5] * 2, 1, RequestTerms(only_full=True)))
    assert sorted(found) == ([0, 1] if is_sent else [])


def test_a_provider_that_refuses_everything_is_not_asked_for_ever() -> None:
    embedder = Lengths(max_inputs=500)
    found = run(embedder, [f"bad {n}" for n in range(3000)])
    assert set(found.values()) == {None}
    assert len(found) == 3000
    assert len(embedder.requests) <= MAX_REFUSALS + 20


class Short(Lengths):
    """Answers with too few vectors to requests of more than `readable` texts."""

    def __init__(self, readable: int, max_inputs: int = 500) -> None:
        super().__init__(max_inputs)
        self.readable = readable

    def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) > self.readable:
            self.requests.append(list(texts))
            raise EmbeddingUnreadable("too few vectors", vectors=self.readable)
        return super().embed(texts)


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("terms", [FREE, RequestTerms(seconds=0)])
def test_a_provider_none_of_whose_answers_can_be_read_ends_the_task(concurrency: int, terms: RequestTerms) -> None:
    embedder = Short(readable=0)
    texts = [f"text {n}" for n in range(3000)]
    with pytest.raises(EmbeddingUnreadable, match="too few vectors"):
        collect(embed_all(embedder, texts, [1] * len(texts), concurrency, terms))
    assert MAX_UNREADABLE < len(embedder.requests) <= MAX_UNREADABLE + concurrency


def test_after_an_answer_that_could_be_read_the_others_are_split_to_the_end() -> None:
    class ReadableAtFirst(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if self.requests:
                self.requests.append(list(texts))
                raise EmbeddingUnreadable("no vectors", vectors=0)
            return super().embed(texts)

    embedder = ReadableAtFirst(max_inputs=MAX_UNREADABLE)
    found = run(embedder, [f"text {n:2}" for n in range(2 * MAX_UNREADABLE)])
    assert list(found.values()) == [len("text 00")] * MAX_UNREADABLE + [None] * MAX_UNREADABLE
    assert len(embedder.requests) > MAX_UNREADABLE + 1


@pytest.mark.parametrize("readable", [1, 3, 63])
def test_a_provider_that_reads_few_texts_a_request_is_paid_for_each_batch_once_more(readable: int) -> None:
    embedder = Short(readable, max_inputs=64)
    found = run(embedder, [f"text {n}" for n in range(640)], 4)
    assert len(found) == 640
    assert None not in found.values()
    assert sum(min(len(texts), readable) for texts in embedder.requests) == 640 + 10 * readable


def test_without_a_budget_no_request_is_repeated() -> None:
    class Away(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            self.requests.append(list(texts))
            raise EmbeddingUnavailable("away")

    embedder = Away()
    with pytest.raises(EmbeddingUnavailable):
        run(embedder, ["a"])
    assert embedder.requests == [["a"]]


@pytest.mark.parametrize("excess", [Excess.TEXTS, Excess.SIZE, None])
def test_requests_grow_while_texts_wait_once_larger_ones_are_taken(hours: Hours, excess: Excess | None) -> None:
    class Few(Lengths):
        most = 10

        def embed(self, texts: Sequence[str]) -> Vectors:
            if len(texts) > self.most:
                self.requests.append(list(texts))
                raise EmbeddingRefused("no", excess=excess)
            return super().embed(texts)

    server = Few(max_inputs=400)
    budget = RateBudget("m", "n", UNLIMITED, redis_url="redis://127.0.0.1:1/0", concurrency=2, clock=hours.clock)
    texts = [f"text {number:3}" for number in range(400)]
    assert len(collect(embed_all(server, texts, [1] * 400, 2, RequestTerms(budget, "p")))) == 400
    refused = [len(request) for request in server.requests if len(request) > 10]
    assert len(refused) <= 12
    assert len(server.requests) - len(refused) <= 80
    assert Counter(text for request in server.requests if len(request) <= 10 for text in request).total() == 400


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
