"""Vectors that the project gained while a request waited are not requested; the answer is as if they had been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from schemas.content.document import text_hash
from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused
from worker.embed import Vectors
from worker.index.skip_cached import CacheFirstEmbedder
from worker.vectors import Vector

PROFILE = EmbedderProfile(model="m", dimensions=1)


class Counting:
    """Embeds a text as its length, and rejects those with `bad`."""

    profile, max_inputs, max_request_tokens = PROFILE, 10, 100

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(list(texts))
        if bad := [at for at, text in enumerate(texts) if "bad" in text]:
            raise EmbeddingRefused("no", indices=bad)
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def cache_first(embedder: Counting, *known: str) -> CacheFirstEmbedder:
    """The embedder after a first answer: it knows these texts, as their lengths plus a hundred."""
    has: Mapping[str, Vector] = {text_hash(text): np.array([len(text) + 100], dtype=np.float32) for text in known}
    fresh = {text_hash("first")}
    made = CacheFirstEmbedder(embedder, lambda hashes: {hash_: has[hash_] for hash_ in hashes if hash_ in has}, fresh)
    made.embed(["first"])
    embedder.asked.clear()
    return made


def test_only_what_is_not_known_is_asked_for_and_all_of_it_is_answered_in_order() -> None:
    embedder = Counting()
    made = cache_first(embedder, "b", "dddd")
    assert made.embed(["a", "b", "cc", "dddd"]).ravel().tolist() == [1, 101, 2, 104]
    assert embedder.asked == [["a", "cc"]]
    assert made.cached == {text_hash("b"), text_hash("dddd")}


def test_a_request_for_what_is_all_known_is_not_sent() -> None:
    embedder = Counting()
    assert cache_first(embedder, "a", "bb").embed(["bb", "a"]).ravel().tolist() == [102, 101]
    assert embedder.asked == []


def test_a_refused_text_is_told_by_its_place_in_the_whole_request() -> None:
    with pytest.raises(EmbeddingRefused) as refused:
        cache_first(Counting(), "a").embed(["a", "good", "bad"])
    assert refused.value.indices == [2]


def test_requests_that_go_out_before_the_first_answer_look_up_only_what_has_waited() -> None:
    embedder, asked = Counting(), list[str]()

    def looked_up(hashes: Sequence[str]) -> Mapping[str, Vector]:
        asked.extend(hashes)
        return {}

    made = CacheFirstEmbedder(embedder, looked_up, {text_hash("a")})
    assert made.embed(["a", "bb", "a"]).ravel().tolist() == [1, 2, 1]
    assert asked == [text_hash("bb")]
    made.embed(["a"])
    assert asked == [text_hash("bb"), text_hash("a")]
