"""An embedder for tests, whose vectors are the lengths of texts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np

from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized
from worker.embed import Vectors
from worker.embed.batching import Outcome, embed_all


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
