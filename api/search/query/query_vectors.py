"""Queries become vectors, of which a process keeps the latest: agents ask the same thing again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from threading import Lock
from typing import NamedTuple

from cachetools import LRUCache

from api.search.query.coalesce import Gathering
from schemas.errors import EmbeddingUnavailable
from schemas.source import EmbedderProfile
from worker.embed import litellm
from worker.embed.batching import pack
from worker.resources import Resources
from worker.state.index.tools import Index
from worker.vectors import Vector

#: Bytes of the vectors that are kept, with what it costs to find each.
KEPT_BYTES = 64 * 2**20
_OVERHEAD = 256
#: Seconds that a query waits for a provider; keywords answer in less, and its request holds one of few threads.
QUERY_SECONDS = 4.0

#: Project, model, its address, text. Without the project, the time of an answer would tell what others asked.
_Key = tuple[str, EmbedderProfile, str | None, bytes]


class _Model(NamedTuple):
    profile: EmbedderProfile
    explicit_dimensions: bool


class KeptVectors:
    """The vectors used last, by project, model, its address and text. Thread-safe."""

    def __init__(self, size: int = KEPT_BYTES) -> None:
        self._lock = Lock()
        self._vectors: LRUCache[_Key, Vector] = LRUCache(size, getsizeof=lambda vector: vector.nbytes + _OVERHEAD)

    def get(self, key: _Key) -> Vector | None:
        """The vector of shape (dimensions,), if it is kept."""
        with self._lock:
            return self._vectors.get(key)

    def keep(self, key: _Key, row: Vector) -> Vector:
        """A read-only copy of `row`, kept if it fits: a view would keep all of the answer it is a part of."""
        vector = row.copy()
        vector.setflags(write=False)
        with self._lock:
            if vector.nbytes + _OVERHEAD <= self._vectors.maxsize:
                self._vectors[key] = vector
        return vector


_kept = KeptVectors()
#: Requests to providers run here, so that those for whom nobody waits any more hold none of the threads that answer.
_asking = ThreadPoolExecutor(32, thread_name_prefix="embed-query")


def embed_queries(resources: Resources, index: Index, texts: Sequence[str], kept: KeptVectors = _kept) -> list[Vector]:
    """The vectors of queries by the index's own model, float32 of shape (dimensions,) each, in their order.

    Texts are cut to what the model takes. Those without a kept vector go in one request, as far as the model's limits
    allow. Raises `EmbeddingError`: `EmbeddingUnavailable` where a provider has not answered in `QUERY_SECONDS`.
    """
    keys = {text: _key(resources, index, text) for text in texts}
    found = {text: vector for text, key in keys.items() if (vector := kept.get(key)) is not None}
    missing = {text: key for text, key in keys.items() if text not in found}
    if missing:
        model = _Model(index.settings.embedder, index.settings.explicit_dimensions)
        # the local model answers for sure, and no sooner from another thread
        is_local = resources.budget(model.profile) is None
        found |= (_added if is_local else _added_in_time)(resources, kept, model, missing)
    return [found[text] for text in texts]


def _added_in_time(
    resources: Resources, kept: KeptVectors, model: _Model, missing: Mapping[str, _Key]
) -> Mapping[str, Vector]:
    """As `_added`; a request that takes too long goes on, and what it brings is kept for the next one who asks."""
    litellm.warm()  # a process's first import takes longer than any provider may
    try:
        return _gathering(resources, kept, model).get(missing, QUERY_SECONDS)
    except TimeoutError as error:
        raise EmbeddingUnavailable(
            f"{model.profile.model} did not answer within {QUERY_SECONDS:g} s; try again, and check the "
            "provider and EMBEDDING_API_BASE if it stays so."
        ) from error


@lru_cache(maxsize=64)
def _gathering(resources: Resources, kept: KeptVectors, model: _Model) -> Gathering[_Key, Vector]:
    return Gathering(partial(_added, resources, kept, model), _asking)


def _added(resources: Resources, kept: KeptVectors, model: _Model, missing: Mapping[str, _Key]) -> dict[str, Vector]:
    """The vectors of texts that were not kept, and are now."""
    rows = _embedded(resources, model, list(missing))
    return {text: kept.keep(key, row) for (text, key), row in zip(missing.items(), rows, strict=True)}


def _key(resources: Resources, index: Index, text: str) -> _Key:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    return index.project_id, index.settings.embedder, resources.settings.embedding_api_base, digest


def _embedded(resources: Resources, model: _Model, texts: Sequence[str]) -> list[Vector]:
    cut = [_cut(resources, model.profile, text) for text in texts]
    tokens = [len(text) // 4 + 1 for text in cut]
    embedder = resources.embedder(model.profile, explicit_dimensions=model.explicit_dimensions)
    budget = resources.budget(model.profile)
    rows: dict[int, Vector] = {}
    for batch in pack(tokens, embedder.max_inputs, embedder.max_request_tokens):
        send = partial(embedder.embed, [cut[place] for place in batch])
        # no rate holds a user back, though a provider that asked for quiet gets it
        asked = send() if budget is None else budget.query(send, tokens=sum(tokens[place] for place in batch))
        rows |= zip(batch, asked, strict=True)
    return [rows[place] for place in range(len(texts))]


def _cut(resources: Resources, profile: EmbedderProfile, text: str) -> str:
    limit = profile.max_input_tokens
    if len(text.encode(errors="surrogatepass")) <= limit:
        return text  # no token is less than a byte, though one character may be several
    starts = resources.tokenizer(profile).starts(text)
    return text if len(starts) <= limit else text[: starts[limit]]
