"""Texts gathered into requests: none waits for long, none is sent for nobody, none suffers for another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from api.search.query.coalesce import Gathering
from api.stack.processes import wait_until
from schemas.errors import EmbeddingRefused, EmbeddingUnavailable

SECONDS = 20.0


class Provider:
    """Answers each text with its length once `go` is set; refuses a request with `bad` in it."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.go = Event()
        self.fails: Exception | None = None

    def send(self, texts: Mapping[str, None]) -> dict[str, int]:
        self.requests.append(sorted(texts))
        assert self.go.wait(SECONDS)
        if self.fails is not None:
            raise self.fails
        if "bad" in texts:
            raise EmbeddingRefused("one of them is refused")
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
    with ThreadPoolExecutor(1) as pool:  # one request at a time, so that what comes meanwhile must wait
        yield pool
        provider.go.set()


@pytest.fixture
def gathering(provider: Provider, threads: ThreadPoolExecutor) -> Gathering[None, int]:
    return Gathering(provider.send, threads)


def ask(gathering: Gathering[None, int], callers: ThreadPoolExecutor, *texts: str) -> list[Future[Mapping[str, int]]]:
    """A caller for each text, all of them waiting once this returns."""
    before = len(gathering._waiting)
    futures = [callers.submit(gathering.get, {text: None}, SECONDS) for text in texts]
    assert wait_until(lambda: len(gathering._waiting) == before + len(texts), SECONDS)
    return futures


def behind_one(gathering: Gathering[None, int], callers: ThreadPoolExecutor, provider: Provider) -> Future[object]:
    first = callers.submit(gathering.get, {"first": None}, SECONDS)
    assert wait_until(lambda: provider.requests == [["first"]], SECONDS)
    return first  # type: ignore[return-value] # whatever it gives


def test_what_comes_during_a_request_goes_together(
    gathering: Gathering[None, int], callers: ThreadPoolExecutor, provider: Provider
) -> None:
    first = behind_one(gathering, callers, provider)
    others = ask(gathering, callers, "a", "bb", "bb", "ccc")
    provider.go.set()
    assert [future.result()[text] for future, text in zip(others, ("a", "bb", "bb", "ccc"), strict=True)] == [
        1,
        2,
        2,
        3,
    ]
    assert first.result() == {"first": 5}
    assert provider.requests == [["first"], ["a", "bb", "ccc"]]


def test_a_refused_text_is_nobody_elses_trouble(
    gathering: Gathering[None, int], callers: ThreadPoolExecutor, provider: Provider
) -> None:
    behind_one(gathering, callers, provider)
    good, bad = ask(gathering, callers, "good", "bad")
    provider.go.set()
    assert good.result()["good"] == 4
    with pytest.raises(EmbeddingRefused):
        bad.result()


def test_a_provider_that_is_down_is_not_asked_for_each(
    gathering: Gathering[None, int], callers: ThreadPoolExecutor, provider: Provider
) -> None:
    behind_one(gathering, callers, provider)
    provider.fails = EmbeddingUnavailable("down")
    others = ask(gathering, callers, "a", "b", "c")
    provider.go.set()
    for future in others:
        with pytest.raises(EmbeddingUnavailable):
            future.result()
    assert len(provider.requests) == 2


def test_nothing_is_sent_for_who_waits_no_longer(
    gathering: Gathering[None, int], callers: ThreadPoolExecutor, provider: Provider
) -> None:
    first = behind_one(gathering, callers, provider)
    with pytest.raises(TimeoutError):
        gathering.get({"late": None}, 0.1)
    provider.go.set()
    assert first.result() == {"first": 5}
    assert gathering.get({"next": None}, SECONDS) == {"next": 4}
    assert provider.requests == [["first"], ["next"]]


def test_a_request_that_takes_long_holds_nobody_up(callers: ThreadPoolExecutor, provider: Provider) -> None:
    def send(texts: Mapping[str, None]) -> Mapping[str, int]:
        return provider.send(texts) if "first" in texts else dict.fromkeys(texts, 0)

    with ThreadPoolExecutor(4) as threads:
        gathering = Gathering(send, threads)
        first = behind_one(gathering, callers, provider)
        assert gathering.get({"quick": None}, SECONDS) == {"quick": 0}
        assert not first.done()
        provider.go.set()
