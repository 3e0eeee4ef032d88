"""Tokens are reserved before a request is sent, and given back if it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable, FoldexError
from schemas.reason import Reason
from worker.embed import Vectors
from worker.index.spending import LimitedEmbedder, Spending
from worker.state.index import task_notes

NO_POOL: Any = None


class Purse:
    """What a task's row holds: the tokens that are left."""

    def __init__(self, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = left
        monkeypatch.setattr(task_notes, "spend", lambda _pool, _task, tokens: self.spend(tokens))
        monkeypatch.setattr(task_notes, "give_back", lambda _pool, _task, tokens: self.spend(-tokens))

    def spend(self, tokens: int) -> int:
        before = self.left
        self.left -= tokens if tokens <= before else 0
        return before


class Provider:
    """Answers each request, or fails each."""

    profile, max_inputs, max_request_tokens = EmbedderProfile(model="m", dimensions=1), 10, 100

    def __init__(self, failure: FoldexError | None = None) -> None:
        self.failure, self.requests = failure, 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.requests += 1
        if self.failure:
            raise self.failure
        return np.ones((len(texts), 1), dtype=np.float32)


@pytest.mark.parametrize(
    ("tokens", "unfit", "left"),
    [
        ([4, 6], [], 0),
        # nothing of a request is spent that does not fit as a whole; those that would fit may be sent again
        ([4, 7], [1], 10),
        ([6, 5, 4], [1], 10),
        ([11, 10, 1], [0, 2], 10),
    ],
)
def test_the_texts_that_do_not_fit_are_told(
    monkeypatch: pytest.MonkeyPatch, tokens: list[int], unfit: list[int], left: int
) -> None:
    purse = Purse(10, monkeypatch)
    spending = Spending(NO_POOL, uuid4())
    assert spending.reserve(tokens) == unfit
    assert purse.left == left


def test_a_request_beyond_the_limit_is_refused_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    purse, provider = Purse(10, monkeypatch), Provider()
    limited = LimitedEmbedder(provider, Spending(NO_POOL, uuid4()), {"a": 8, "b": 3})
    with pytest.raises(EmbeddingRefused) as refused:
        limited.embed(["a", "b"])
    assert (refused.value.indices, refused.value.reason) == ([1], Reason.COST_LIMIT)
    assert (provider.requests, purse.left) == (0, 10)
    assert limited.embed(["a"]).shape == (1, 1)
    assert (provider.requests, purse.left) == (1, 2)


@pytest.mark.parametrize(
    ("failure", "left"),
    # what answers has computed, however useless the answer is
    [(EmbeddingUnavailable("down"), 10), (EmbeddingRefused("wrong", indices=[0]), 10), (EmbeddingUnreadable("?"), 0)],
)
def test_a_request_spends_tokens_once_its_provider_has_counted_them(
    monkeypatch: pytest.MonkeyPatch, failure: FoldexError, left: int
) -> None:
    purse = Purse(10, monkeypatch)
    limited = LimitedEmbedder(Provider(failure), Spending(NO_POOL, uuid4()), {"a": 8, "b": 2})
    with pytest.raises(type(failure)):
        limited.embed(["a", "b"])
    assert purse.left == left
