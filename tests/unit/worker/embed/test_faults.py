"""Whom a fault of a server is blamed on, with a fake embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, LeaseLost
from worker.embed import Vectors
from worker.embed.batching import embed_all
from worker.embed.faults import HARMLESS_TEXT, FaultFindingEmbedder
from worker.embed.rate_limit import no_check
from worker.embed.retry import FAULTS_TO_REFUSE


class Faulty:
    """An embedder that fails as `fails` says of its requests, each a list of texts."""

    profile = EmbedderProfile(model="faulty", dimensions=1)
    max_request_tokens, max_inputs = 1000, 8

    def __init__(self, fails: Callable[[Sequence[str]], bool], status: int = 500, wait: float | None = None) -> None:
        self._fails, self._status, self._wait = fails, status, wait
        self.requests: list[Sequence[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.requests.append(texts)
        if self._fails(texts):
            raise EmbeddingUnavailable("no", provider_status=self._status, retry_after=self._wait)
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def finding(embedder: Faulty, check: Callable[[], None] = no_check) -> FaultFindingEmbedder:
    return FaultFindingEmbedder(embedder, check, lambda _: None)


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
