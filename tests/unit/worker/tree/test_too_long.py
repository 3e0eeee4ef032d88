"""Summaries that are longer than the embedding model takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, Excess
from worker.embed import Vectors
from worker.state.index import embedding_cache
from worker.tokens.tokenizers import cl100k
from worker.tree import vectors


class Narrow:
    """A text's vector is its length. Texts of more than 60 characters are too long, and "bad" is refused."""

    profile = EmbedderProfile(model="m", dimensions=1)
    max_inputs, max_request_tokens = 10, 1000

    def embed(self, texts: Sequence[str]) -> Vectors:
        if "bad" in texts:
            raise EmbeddingRefused("no")
        if any(len(text) > 60 for text in texts):
            raise EmbeddingRefused("no", excess=Excess.LENGTH)
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def test_a_summary_beyond_the_context_gets_the_vector_of_its_first_part(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {}
    monkeypatch.setattr(embedding_cache, "keep", lambda _pool, _owner, found: kept.update(found))
    run: Any = Mock(embedder=Narrow(), budget=None, tokenizer=cl100k(), concurrency=1)
    run.index.settings.embedder = EmbedderProfile(model="m", dimensions=1, max_input_tokens=1000)
    found = vectors._embed(run, {"short": "a" * 10, "long": "b" * 200, "bad": "bad"})
    assert {hash_: float(vector[0]) for hash_, vector in found.items()} == {"short": 10, "long": 50}
    assert kept.keys() == found.keys()
