"""Vectors of new chunks: who pays for a text that several files hold, and whose vectors and refusals are whose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest

from schemas.content.document import Chunk, text_hash
from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized
from schemas.reason import Reason
from tests.unit.worker.embed.rates import NO_LIMITS
from worker.embed import Vectors
from worker.embed.pace import EmbeddingPace
from worker.index.embed import Embedding, embed, recall_vectors, share
from worker.index.file_states import (
    EmbeddedFile,
    FailedFile,
    File,
    FileFacts,
    PreparedFile,
    ProviderUsage,
    UnchangedFile,
)
from worker.index.lease import Lease
from worker.index.run import IndexRun
from worker.state.index import embedding_cache
from worker.state.index.chunks import PlacedChunk
from worker.vectors import Vector

PROFILE = EmbedderProfile(model="m", dimensions=1)
#: Tokens of each chunk.
TOKENS = 7


class Provider:
    """A text's vector is its length. It refuses "bad", and rejects the key for "stop"."""

    profile, max_request_tokens = PROFILE, 1000

    def __init__(self, max_inputs: int = 100) -> None:
        self.max_inputs = max_inputs
        self.sent: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def embed(self, texts: Sequence[str]) -> Vectors:
        bad = [index for index, text in enumerate(texts) if "bad" in text]
        if bad:
            reason = Reason.COST_LIMIT if "dear" in texts[bad[0]] else Reason.EMBEDDING_REFUSED
            raise EmbeddingRefused("No.", indices=bad, reason=reason)
        if "stop" in texts:
            raise EmbeddingUnauthorized("wrong key")
        self.sent += texts
        self.meanwhile()
        return np.array([[len(text)] for text in texts], dtype=np.float32)


class Cache:
    """The vectors that the project paid for, and those that are live in namespaces of a store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.vectors: dict[str, Vector] = {}
        self.live: dict[str, tuple[str, UUID]] = {}
        self.asked: list[str] = []
        self.asked_elsewhere: set[str] = set()
        self.failures = 0
        monkeypatch.setattr(embedding_cache, "lookup", lambda _pool, _owner, hashes: self.lookup(hashes))
        monkeypatch.setattr(embedding_cache, "insert", lambda _pool, _owner, vectors: self.insert(vectors))
        monkeypatch.setattr(
            embedding_cache, "live_elsewhere", lambda _pool, _owner, _store, hashes: self.elsewhere(hashes)
        )

    def lookup(self, hashes: Collection[str]) -> dict[str, Vector]:
        self.asked += hashes
        return {hash_: self.vectors[hash_] for hash_ in hashes if hash_ in self.vectors}

    def insert(self, vectors: Mapping[str, Vector]) -> None:
        if self.failures:
            self.failures -= 1
            raise psycopg.OperationalError
        self.vectors |= vectors

    def elsewhere(self, hashes: Collection[str]) -> list[tuple[str, str, UUID]]:
        self.asked_elsewhere |= set(hashes)
        return [(hash_, *self.live[hash_]) for hash_ in hashes if hash_ in self.live]

    def put(self, text: str, value: float) -> None:
        self.vectors[text_hash(text)] = np.array([value], dtype=np.float32)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    return Cache(monkeypatch)


def run_with(provider: Provider, **given: Any) -> IndexRun:
    index = Mock(project_id="p", vector_store="store")
    index.settings.embedder = PROFILE
    nothing: Any = None
    return IndexRun(
        index, 1, nothing, nothing, provider, nothing, nothing, Lease(), 1, nothing, EmbeddingPace(), **given
    )


def file_of(*texts: str, embedded: bool = True) -> PreparedFile:
    claim = Mock(id=uuid4(), awaits_vectors=False)
    chunks = [
        PlacedChunk(uuid4(), claim.id, number, Chunk(text, 0, 9, number + 1, number + 2, TOKENS), text_hash(text), None)
        for number, text in enumerate(texts)
    ]
    if not embedded:
        chunks = [replace(chunk, embedded=False) for chunk in chunks]
    return PreparedFile(claim, FileFacts("text"), chunks, embedded)


def values(file: EmbeddedFile) -> list[float | None]:
    """The vectors of a file's chunks in order."""
    found = [file.vectors.get(chunk.id) for chunk in file.state.new]
    return [None if vector is None else float(vector[0]) for vector in found]


def embed_prepared(run: IndexRun, files: Sequence[File], *waiting: Any, more: bool) -> Embedding:
    return embed(run, recall_vectors(run, files), *waiting, more=more)


def embedded(provider: Provider, *files: File, **given: Any) -> list[EmbeddedFile]:
    made = embed_prepared(run_with(provider, **given), files, more=False)
    assert made.stopped is None
    return list(made.files)


def test_a_text_that_several_files_hold_is_sent_once_and_paid_for_by_one(cache: Cache) -> None:
    provider = Provider()
    one, other, third = embedded(provider, file_of("a", "bb", "a"), file_of("a"), file_of("bb", "ccc"))
    assert sorted(provider.sent) == ["a", "bb", "ccc"]
    assert [values(one), values(other), values(third)] == [[1, 2, 1], [1], [2, 3]]
    assert [one.paid, other.paid, third.paid] == [
        ProviderUsage(2, 2 * TOKENS),
        ProviderUsage(0, 0),
        ProviderUsage(1, TOKENS),
    ]
    assert set(cache.vectors) == set(map(text_hash, ("a", "bb", "ccc")))


def test_what_the_project_paid_for_is_neither_sent_nor_paid(cache: Cache) -> None:
    provider = Provider()
    cache.put("a", 10)
    (made,) = embedded(provider, file_of("a", "bb"))
    assert (values(made), made.paid, provider.sent) == ([10, 2], ProviderUsage(1, TOKENS), ["bb"])


def test_what_was_paid_for_while_a_request_waited_is_not_paid_again(cache: Cache) -> None:
    provider = Provider(max_inputs=1)
    provider.meanwhile = lambda: cache.put("bb", 20)
    (made,) = embedded(provider, file_of("a", "bb"))
    assert (values(made), made.paid, provider.sent) == ([1, 20], ProviderUsage(1, TOKENS), ["a"])


def test_vectors_that_are_live_elsewhere_are_read_from_there(cache: Cache) -> None:
    provider, ids = Provider(), [uuid4() for _ in range(3)]
    for text, namespace, id_ in zip(("a", "bb", "ccc"), ("n1", "n1", "n2"), ids, strict=True):
        cache.live[text_hash(text)] = (namespace, id_)
    held = {"n1": dict(zip(ids[:2], (10, 20), strict=True)), "n2": {ids[2]: 30}}
    store: Any = Mock()
    store.vectors = lambda namespace, ids: {id_: np.array([held[namespace][id_]]) for id_ in ids}
    cache.put("e", 50)
    run = replace(run_with(provider), store=store)
    (made,) = embed_prepared(run, [file_of("a", "bb", "ccc", "dddd", "e")], more=False).files
    assert (values(made), made.paid, provider.sent) == ([10, 20, 30, 4, 50], ProviderUsage(1, TOKENS), ["dddd"])
    # what the cache holds is not looked for
    assert text_hash("e") not in cache.asked_elsewhere


def waiting_after(provider: Provider, file: PreparedFile, **given: Any) -> tuple[IndexRun, Embedding]:
    """A run in which a file's text does not fill a request, and waits for more."""
    budget: Any = Mock(concurrency=1, call=lambda request, **_: request(), **NO_LIMITS)
    run = run_with(provider, budget=budget, **given)
    return run, embed_prepared(run, [file], more=True)


def test_texts_that_fill_no_request_wait_for_more(cache: Cache) -> None:
    provider = Provider(max_inputs=2)
    first, second = file_of("a", "bb", "ccc"), file_of("dddd")
    run, made = waiting_after(provider, first)
    (half,) = made.files
    assert (values(half), half.complete, half.paid) == ([1, 2, None], False, ProviderUsage(2, 2 * TOKENS))
    # of what waits, only the text without a vector is looked up
    cache.vectors.clear()
    cache.asked_elsewhere.clear()
    ended = embed_prepared(run, [second], made.files, more=False)
    whole, other = ended.files
    assert (values(whole), values(other)) == ([1, 2, 3], [4])
    # what was paid before still counts, and nothing is sent or looked for twice
    assert (whole.paid, other.paid) == (ProviderUsage(3, 3 * TOKENS), ProviderUsage(1, TOKENS))
    assert provider.sent == ["a", "bb", "ccc", "dddd"]
    assert cache.asked_elsewhere == {text_hash("dddd")}
    assert whole.timings["embed"] >= half.timings["embed"]


def test_a_text_that_waits_is_looked_up_once_and_again_before_it_is_sent(cache: Cache) -> None:
    provider = Provider(max_inputs=4)
    run, made = waiting_after(provider, file_of("a"))
    for text in ("bb", "ccc"):
        cache.asked.clear()
        made = embed_prepared(run, [file_of(text)], made.files, more=True)
        assert (cache.asked, provider.sent) == ([text_hash(text)], [])
    cache.put("bb", 20)  # another worker pays for it meanwhile
    cache.asked.clear()
    made = embed_prepared(run, [file_of("dddd")], made.files, more=True)
    assert [values(file) for file in made.files] == [[1], [20], [3], [4]]
    assert [file.paid.chunks for file in made.files] == [1, 0, 1, 1]
    assert provider.sent == ["a", "ccc", "dddd"]
    assert sorted(cache.asked) == sorted(map(text_hash, ("a", "bb", "ccc", "dddd")))


@pytest.mark.usefixtures("cache")
def test_texts_do_not_wait_if_no_file_follows_or_they_cost_nothing() -> None:
    provider = Provider(max_inputs=2)
    assert embed_prepared(run_with(provider), [file_of("a")], more=True).files[0].complete
    run, _ = waiting_after(provider, file_of("bb", "ccc"))
    assert embed_prepared(run, [file_of("dddd")], more=False).files[0].complete


def lost(file: PreparedFile) -> UnchangedFile:
    """The file after its words were written."""
    claim: Any = Mock(id=file.claim.id, awaits_vectors=True, live_embedded=True)
    return UnchangedFile(claim, file.facts, lost=file.chunks)


def test_a_refused_text_fails_its_files_alone(cache: Cache) -> None:
    edited = [replace(file_of(*texts), drops_vectors=True) for texts in (("a", "bad"), ("bad",))]
    failed, other, made = embedded(Provider(), *edited, file_of("bb"))
    for file, line in ((failed, 2), (other, 1)):
        assert isinstance(file.state, FailedFile)
        assert file.state.failure.reason is Reason.EMBEDDING_REFUSED
        assert file.state.failure.message == f"Lines {line} to {line + 1}: No."
        assert not file.written
    # its other text was sent
    assert (failed.paid, other.paid) == (ProviderUsage(1, TOKENS), ProviderUsage(0, 0))
    assert (values(made), made.paid) == ([2], ProviderUsage(1, TOKENS))
    assert text_hash("bad") not in cache.vectors


@pytest.mark.usefixtures("cache")
def test_a_refused_text_of_a_new_file_leaves_its_words_and_fails_it_afterwards() -> None:
    new = file_of("a", "bad")
    (made,) = embedded(Provider(), new)
    assert (made.is_refused, values(made), made.state) == (True, [1, None], new)
    (failed,) = embedded(Provider(), lost(new))
    assert isinstance(failed.state, FailedFile)
    # what was answered is written
    assert [chunk.id for chunk in failed.written] == [new.chunks[0].id] == [*failed.vectors]


@pytest.mark.usefixtures("cache")
def test_a_text_beyond_the_limit_fails_its_file_without_a_place() -> None:
    (file,) = embedded(Provider(), lost(file_of("bad, dear")))
    assert isinstance(file.state, FailedFile)
    assert (file.state.failure.reason, file.state.failure.message) == (Reason.COST_LIMIT, "No.")


@pytest.mark.usefixtures("cache")
def test_a_file_that_is_found_by_its_words_has_no_vectors() -> None:
    provider = Provider()
    made, other = embedded(provider, file_of("a", embedded=False), file_of("bb"))
    assert (values(made), made.complete, made.paid, provider.sent) == ([None], True, ProviderUsage(0, 0), ["bb"])
    assert ("embed" in made.timings, "embed" in other.timings) == (False, True)


def test_what_was_answered_before_an_error_is_kept(cache: Cache) -> None:
    made = embed_prepared(run_with(Provider(max_inputs=1)), [file_of("a"), file_of("stop")], more=False)
    assert isinstance(made.stopped, EmbeddingUnauthorized)
    assert [file.complete for file in made.files] == [True, False]
    assert [file.paid for file in made.files] == [ProviderUsage(1, TOKENS), ProviderUsage(0, 0)]
    assert list(cache.vectors) == [text_hash("a")]


def test_paid_vectors_wait_for_postgres(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(embedding_cache, "keep", partial(embedding_cache.keep, pause=pauses.append))
    cache.failures = 3
    assert embedded(Provider(), file_of("a"))[0].complete
    assert list(cache.vectors) == [text_hash("a")]
    assert len(pauses) == 3


def test_paid_vectors_do_not_wait_for_ever(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "OUTAGE_SECONDS", 0.0)
    cache.failures = 1
    with pytest.raises(psycopg.OperationalError):
        embedded(Provider(), file_of("a"))
    assert cache.failures == 0


def test_files_share_the_seconds_by_their_chunks() -> None:
    one, three, none = uuid4(), uuid4(), uuid4()
    assert share(8, {one: 1, three: 3, none: 0}) == {one: 2, three: 6}
    assert share(8, {}) == {}
