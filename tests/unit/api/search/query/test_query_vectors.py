"""Vectors of queries: one request for unknown texts, no text embedded twice, models never mixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import NoReturn
from uuid import uuid4

import numpy as np
import pytest

from api.search.query import query_vectors
from api.search.query.query_vectors import LOCAL_SECONDS, VectorCache, begin_queries, embed_queries
from api.stack.processes import wait_until
from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.errors import EmbeddingUnavailable
from schemas.tool import IndexSettings
from tests.fakes.embeddings import EmbeddingsFake, Limits
from worker.embed import Vectors
from worker.embed.local import minilm
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index.tools import Index


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake(dimensions=8) as fake:
        yield fake


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request of a process imports what it needs, which may take longer than a caller would wait."""
    monkeypatch.setattr(query_vectors, "QUERY_SECONDS", 60.0)


@pytest.fixture
def resources(provider: EmbeddingsFake, redis_url: str) -> Resources:
    provider.audit.requests.clear()
    given = {"default_embedding_model": "openai/m", "embedding_api_base": provider.url, "embedding_api_key": "k"}
    return Resources(Settings(**given, redis_url=redis_url))


def index(model: str = "openai/m", project_id: str = "p", **profile: int) -> Index:
    settings = IndexSettings(
        embedder=EmbedderProfile(model=model, dimensions=8, **profile),
        chunks=ChunkSettings(),
        max_file_bytes=1,
    )
    return Index(uuid4(), project_id, NodesSource(node_id="n"), None, settings, "lancedb", "store", "n", 1)


def test_what_is_missing_goes_in_one_request(resources: Resources, provider: EmbeddingsFake) -> None:
    cache = VectorCache()
    (first,) = embed_queries(resources, index(), ["one"], cache)
    together = embed_queries(resources, index(), ["two", "one", "three", "two"], cache)
    assert [request.inputs for request in provider.audit.requests] == [1, 2]
    assert np.array_equal(together[1], first)
    assert np.array_equal(together[0], together[3])
    assert not np.array_equal(together[0], together[2])
    assert embed_queries(resources, index(), ["three", "two"], cache)[0].shape == (8,)
    assert len(provider.audit.requests) == 2


def test_queries_are_answered_by_a_server_that_takes_one_text_and_a_short_one(
    resources: Resources, provider: EmbeddingsFake
) -> None:
    model = f"openai/{uuid4().hex}"
    provider.limits = Limits(most_texts=1, words="Bad Request", most_tokens=64)
    try:
        found = embed_queries(resources, index(model), ["one", "two", "long " * 100], VectorCache())
        assert [vector.shape for vector in found] == [(8,)] * 3
        provider.audit.requests.clear()
        embed_queries(resources, index(model), ["four", "five"], VectorCache())
        assert [(request.inputs, request.status) for request in provider.audit.requests] == [(1, 200)] * 2
    finally:
        provider.limits = Limits()


@pytest.mark.parametrize("bad", ["REFUSE-ME", "FAULT-ME", "NAN-ME", "NULL-ME", "long " * 100])
def test_queries_that_share_a_request_with_a_bad_one_are_answered_after_two(
    resources: Resources, provider: EmbeddingsFake, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    monkeypatch.setattr(query_vectors, "PROVIDER_QUEUED_SECONDS", 60.0)
    model, cache = index(f"openai/{uuid4().hex}"), VectorCache()
    provider.limits = Limits(most_tokens=64)
    texts = [bad, *(f"{number} {bad[:4]}" for number in range(6))]
    with ThreadPoolExecutor(8) as callers:
        # the first answer shows that the model takes base64
        embed_queries(resources, model, ["word"], cache)
        held = provider.holds.add("embeddings", "first")
        first = callers.submit(embed_queries, resources, model, ["first"], cache)
        assert wait_until(lambda: len(held.arrived) == 1, 60)
        others = [callers.submit(embed_queries, resources, model, [text], cache) for text in texts]
        coalescer = query_vectors._coalescer(
            resources,
            cache,
            query_vectors._QueryModel(model.settings.embedder, explicit_dimensions=False),
            is_local=False,
        )
        assert wait_until(lambda: len(coalescer._waiting) == len(texts), 60)
        provider.audit.requests.clear()
        provider.holds.release()
        assert [each.result()[0].shape for each in (first, *others[1:])] == [(8,)] * 7
    sent = [request.inputs for request in provider.audit.requests]
    provider.reset()
    # a text that is too long is cut, and sent once more
    assert (sent[0], sorted(sent[1:])) == (7, [1] * (7 + bad.startswith("long")))


def test_no_vector_of_another_model(resources: Resources, provider: EmbeddingsFake) -> None:
    cache = VectorCache()
    embed_queries(resources, index(), ["one"], cache)
    embed_queries(resources, index("openai/other"), ["one"], cache)
    assert [request.model for request in provider.audit.requests] == ["m", "other"]


def test_no_project_can_tell_by_the_time_what_another_asked(resources: Resources, provider: EmbeddingsFake) -> None:
    cache = VectorCache()
    for project in ("p", "q", "p", "q"):
        embed_queries(resources, index(project_id=project), ["one"], cache)
    assert len(provider.audit.requests) == 2


def test_texts_that_wait_for_the_local_model_go_together(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_vectors, "LOCAL_QUEUED_SECONDS", 60.0)
    local = Resources(Settings(default_embedding_model=minilm.MODEL, redis_url=redis_url))
    model = IndexSettings(embedder=minilm.PROFILE, chunks=ChunkSettings(), max_file_bytes=1)
    of_local = replace(index(), settings=model)
    embedder = local.embedder(minilm.PROFILE, explicit_dimensions=False, for_queries=True)
    requests, go = list[int](), Event()
    embed = embedder.embed

    def held(texts: Sequence[str]) -> Vectors:
        requests.append(len(texts))
        assert go.wait(60)
        return embed(texts)

    monkeypatch.setattr(embedder, "embed", held)
    cache = VectorCache()
    with ThreadPoolExecutor(6) as callers:
        first = callers.submit(embed_queries, local, of_local, ["first"], cache)
        assert wait_until(lambda: requests == [1], 60)
        others = [callers.submit(embed_queries, local, of_local, [f"text {n}"], cache) for n in range(5)]
        coalescer = query_vectors._coalescer(
            local, cache, query_vectors._QueryModel(minilm.PROFILE, explicit_dimensions=False), is_local=True
        )
        assert wait_until(lambda: len(coalescer._waiting) == 5, 60)
        go.set()
        vectors = [each.result()[0] for each in (first, *others)]
    assert requests == [1, 5]
    assert np.allclose(vectors, embed(["first", *(f"text {n}" for n in range(5))]), atol=1e-5)


def test_a_text_that_nobody_waits_for_is_not_sent(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_vectors, "PROVIDER_QUEUED_SECONDS", 60.0)
    requests, go, cache = list[list[str]](), Event(), VectorCache()

    def held(_resources: object, _model: object, texts: Sequence[str], *, is_shared: bool) -> list[Vectors]:
        requests.append(list(texts))
        assert go.wait(60)
        return [np.ones(8, np.float32) for _ in texts]

    monkeypatch.setattr(query_vectors, "_embed", held)
    with ThreadPoolExecutor(1) as callers:
        first = callers.submit(embed_queries, resources, index(), ["first"], cache)
        assert wait_until(lambda: requests == [["first"]], 60)
        with pytest.raises(RuntimeError), begin_queries(resources, index(), ["left"], cache):
            raise RuntimeError("another part of the search failed")
        go.set()
        first.result()
    embed_queries(resources, index(), ["next"], cache)
    assert requests == [["first"], ["next"]]


def test_a_provider_is_given_less_time_than_the_local_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_vectors, "QUERY_SECONDS", 4.0)

    def late(seconds: float) -> NoReturn:
        raise TimeoutError(seconds)

    model = query_vectors._QueryModel(minilm.PROFILE, explicit_dimensions=False)
    with pytest.raises(EmbeddingUnavailable, match=r"within 4 s; try again\. If this persists"):
        query_vectors._in_time(late, model, is_local=False)
    with pytest.raises(EmbeddingUnavailable, match=rf"within {LOCAL_SECONDS:g} s; try again\.$"):
        query_vectors._in_time(late, model, is_local=True)


def test_texts_are_cut_to_what_the_model_takes(resources: Resources) -> None:
    short = index(max_input_tokens=2)
    cut, whole = embed_queries(resources, short, ["alpha beta gamma delta", "alpha beta"], VectorCache())
    assert np.array_equal(cut, whole)


def test_the_least_used_vector_goes_first_and_nothing_outgrows_its_bound(
    resources: Resources, provider: EmbeddingsFake
) -> None:
    cache = VectorCache(size=2 * (8 * 4 + 256))
    for text in ("one", "two", "one", "three", "one", "two"):
        embed_queries(resources, index(), [text], cache)
    assert len(provider.audit.requests) == 4
    embed_queries(resources, index(), ["four"], VectorCache(size=1))


def test_a_kept_vector_cannot_be_changed(resources: Resources) -> None:
    (vector,) = embed_queries(resources, index(), ["one"], VectorCache())
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1
