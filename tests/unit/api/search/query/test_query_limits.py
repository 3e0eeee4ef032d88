"""Queries with many tokens in few characters, and providers that do not answer them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import numpy as np
import pytest

from api.search.query import query_vectors
from api.search.query.query_vectors import VectorCache, embed_queries
from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.errors import EmbeddingUnavailable
from schemas.tool import IndexSettings
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import eventually
from worker.embed.local import minilm
from worker.embed.provider import TIMEOUT_SECONDS
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index.tools import Index

REMOTE = EmbedderProfile(model="openai/m", dimensions=8)


@pytest.fixture
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake(dimensions=8) as fake:
        yield fake


@pytest.fixture
def resources(provider: EmbeddingsFake, redis_url: str) -> Resources:
    given = {"default_embedding_model": "openai/m", "embedding_api_base": provider.url, "embedding_api_key": "k"}
    return Resources(Settings(**given, redis_url=redis_url))


def index(embedder: EmbedderProfile) -> Index:
    settings = IndexSettings(embedder=embedder, chunks=ChunkSettings(), max_file_bytes=1)
    return Index(uuid4(), "p", NodesSource(node_id="n"), None, settings, "lancedb", "store", "n", 1)


@pytest.mark.parametrize(
    "text", ["\uc11c\uc6b8\uc5d0\uc11c \uac80\uc0c9 " * 29, "\U0001f600 " * 200, "a " * 254, "x" * 5000]
)
def test_the_local_model_answers_what_has_more_pieces_than_characters(text: str) -> None:
    (vector,) = embed_queries(Resources(Settings()), index(minilm.PROFILE), [text], VectorCache())
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)


def test_a_silent_provider_is_left_in_time_and_what_it_says_later_is_kept(
    resources: Resources, provider: EmbeddingsFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = VectorCache()
    monkeypatch.setattr(query_vectors, "QUERY_SECONDS", 60.0)
    embed_queries(resources, index(REMOTE), ["the first request imports what it needs"], cache)
    monkeypatch.setattr(query_vectors, "QUERY_SECONDS", 0.3)
    provider.holds.add("embeddings")
    began = time.monotonic()
    with pytest.raises(EmbeddingUnavailable, match=r"within 0\.3 s.*EMBEDDING_API_BASE"):
        embed_queries(resources, index(REMOTE), ["late"], cache)
    assert time.monotonic() - began < TIMEOUT_SECONDS / 2  # as long as the request itself would wait
    provider.holds.release()
    key = query_vectors._key(resources, index(REMOTE), "late")
    eventually(lambda: cache.get(key) is not None, 30)
