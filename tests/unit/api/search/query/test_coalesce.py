"""Batching texts into requests: none waits long, none is sent for a caller that left, none suffers for another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from api.search.query.coalesce import Coalescer
from api.stack.processes import wait_until
from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable, Excess

SECONDS = 20.0


class Provider:
    """Answers each text with its length once `go` is set. Fails at a request with `bad` in it."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.shared: list[bool] = []
        self.go = Event()
        self.fails: Exception | None = None
        self.fails_at_bad: Exception = EmbeddingRefused("one of them is refused")

    def send(self, texts: Mapping[str, None], *, is_shared: bool) -> dict[str, int]:
        self.requests.append(sorted(texts))
        self.shared.append(is_shared)
        assert self.go.wait(SECONDS)
        if self.fails is not None:
            raise self.fails
        if "bad" in texts:
            raise self.fails_at_bad
        return {text: len(text) for text in texts}


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.go.set()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def threads(provider: Provider) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:  # one request at a time, so that later texts must wait
        yield pool
        provider.go.set()


@pytest.fixture
def coalescer(provider: Provider, threads: ThreadPoolExecutor) -> Coalescer[None, int]:
    return Coalescer(provider.send, threads, 0.01)


def ask(coalescer: Coalescer[None, int], callers: ThreadPoolExecutor, *texts: str) -> list[Future[Mapping[str, int]]]:
    """Start a caller for each text. All of them are waiting when this returns."""
    before = len(coalescer._waiting)
    futures = [callers.submit(coalescer.get, {text: None}, SECONDS) for text in texts]
    assert wait_until(lambda: len(coalescer._waiting) == before + len(texts), SECONDS)
    return futures


def behind_one(coalescer: Coalescer[None, int], callers: ThreadPoolExecutor, provider: Provider) -> Future[object]:
    first = callers.submit(coalescer.get, {"first": None}, SECONDS)
    assert wait_until(lambda: provider.requests == [["first"]], SECONDS)
    return first  # type: ignore[return-value] # whatever it gives


def test_what_comes_during_a_request_goes_together(
    coalescer: Coalescer[None, int], callers: ThreadPoolExecutor, provider: Provider
) -> None:
    first = behind_one(coalescer, callers, provider)
    others = ask(coalescer, callers, "a", "bb", "bb", "ccc")
    provider.go.set()
    assert [future.result()[text] for future, text in zip(others, ("a", "bb", "bb", "ccc"), strict=True)] == [
        1,
        2,
        2,
        3,
    ]
    assert first.result() == {"first": 5}
    assert provider.requests == [["first"], ["a", "bb", "ccc"]]


@pytest.mark.parametrize(
    "error",
    [
        EmbeddingRefused("one of them is refused"),
        EmbeddingRefused("one of them is too long", excess=Excess.LENGTH),
        EmbeddingUnreadable("one of the vectors is not a number"),
        EmbeddingUnavailable("it fails at one of them", provider_status=500),
        EmbeddingUnavailable("it closes the connection at one of them", was_taken=True),
    ],
    ids=str,
)
def test_a_text_at_which_the_provider_fails_is_nobody_elses_trouble(
    coalescer: Coalescer[None, int], callers: ThreadPoolExecutor, provider: Provider, error: EmbeddingError
) -> None:
    provider.fails_at_bad = error
    behind_one(coalescer, callers, provider)
    good, bad, other = ask(coalescer, callers, "good", "bad", "other")
    provider.go.set()
    assert (good.result(), other.result()) == ({"good": 4}, {"other": 5})
    with pytest.raises(type(error)):
        bad.result()
    # each is sent once more, and alone
    assert sorted(provider.requests) == [["bad"], ["bad", "good", "other"], ["first"], ["good"], ["other"]]
    assert provider.shared == [len(texts) > 1 for texts in provider.requests]


def test_those_that_are_sent_again_do_not_wait_for_each_other(callers: ThreadPoolExecutor, provider: Provider) -> None:
    together = Barrier(3)

    def send(texts: Mapping[str, None], *, is_shared: bool) -> Mapping[str, int]:
        if "first" in texts:
            return provider.send(texts, is_shared=is_shared)
        if is_shared:
            raise EmbeddingRefused("one of them is refused")
        together.wait(SECONDS)
        return dict.fromkeys(texts, 0)

    with ThreadPoolExecutor(4) as threads:
        coalescer = Coalescer(send, threads, SECONDS)
        behind_one(coalescer, callers, provider)
        others = ask(coalescer, callers, "a", "b", "c")
        provider.go.set()
        assert [each.result() for each in others] == [{"a": 0}, {"b": 0}, {"c": 0}]


def test_a_provider_that_is_down_is_not_asked_for_each(
    coalescer: Coalescer[None, int], callers: ThreadPoolExecutor, provider: Provider
) -> None:
    behind_one(coalescer, callers, provider)
    provider.fails = EmbeddingUnavailable("down")
    others = ask(coalescer, callers, "a", "b", "c")
    provider.go.set()
    for future in others:
        with pytest.raises(EmbeddingUnavailable):
            future.result()
    assert len(provider.requests) == 2


def test_nothing_is_sent_for_who_waits_no_longer(
    coalescer: Coalescer[None, int], callers: ThreadPoolExecutor, provider: Provider
) -> None:
    first = behind_one(coalescer, callers, provider)
    with pytest.raises(TimeoutError):
        coalescer.get({"late": None}, 0.1)
    provider.go.set()
    assert first.result() == {"first": 5}
    assert coalescer.get({"next": None}, SECONDS) == {"next": 4}
    assert provider.requests == [["first"], ["next"]]


def test_a_request_that_takes_long_holds_nobody_up(callers: ThreadPoolExecutor, provider: Provider) -> None:
    def send(texts: Mapping[str, None], *, is_shared: bool) -> Mapping[str, int]:
        if "first" in texts:
            return provider.send(texts, is_shared=is_shared)
        time.sleep(0.1)  # longer than a caller waits for the request in flight
        return dict.fromkeys(texts, 0)

    with ThreadPoolExecutor(4) as threads:
        coalescer = Coalescer(send, threads, 0.01)
        first = behind_one(coalescer, callers, provider)
        assert coalescer.get({"quick": None}, SECONDS) == {"quick": 0}
        assert not first.done()
        provider.go.set()
    # it is idle again, so that whoever comes next is sent at once
    assert coalescer._working == 0


def test_nobody_waits_for_a_request_that_has_ended(provider: Provider) -> None:
    provider.go.set()
    with ThreadPoolExecutor(2) as threads:
        coalescer = Coalescer(provider.send, threads, SECONDS)
        for text in ("first", "second", "third"):
            assert coalescer.get({text: None}, SECONDS) == {text: len(text)}
            assert wait_until(lambda: coalescer._working == 0, SECONDS)
