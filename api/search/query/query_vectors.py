"""Embeds queries and caches recent vectors per process, because agents repeat their queries."""

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

#: Maximum bytes of the cached vectors, and the assumed overhead of each.
KEPT_BYTES = 64 * 2**20
_OVERHEAD = 256
#: Seconds that a query waits for a provider. Keywords answer sooner, and the request holds one of few threads.
QUERY_SECONDS = 4.0

#: Project, model, provider address, text hash. Without the project, timing would reveal other projects' queries.
_Key = tuple[str, EmbedderProfile, str | None, bytes]


class _Model(NamedTuple):
    profile: EmbedderProfile
    explicit_dimensions: bool


class KeptVectors:
    """An LRU cache of vectors by project, model, provider address and text hash. Thread-safe."""

    def __init__(self, size: int = KEPT_BYTES) -> None:
        self._lock = Lock()
        self._vectors: LRUCache[_Key, Vector] = LRUCache(size, getsizeof=lambda vector: vector.nbytes + _OVERHEAD)

    def get(self, key: _Key) -> Vector | None:
        """The cached vector of shape (dimensions,), or None."""
        with self._lock:
            return self._vectors.get(key)

    def keep(self, key: _Key, row: Vector) -> Vector:
        """Cache a read-only copy of `row` if it fits, and return it. A view would keep the whole response in memory."""
        vector = row.copy()
        vector.setflags(write=False)
        with self._lock:
            if vector.nbytes + _OVERHEAD <= self._vectors.maxsize:
                self._vectors[key] = vector
        return vector


_kept = KeptVectors()
#: Runs requests to providers, so that abandoned ones do not block the threads that serve HTTP.
_asking = ThreadPoolExecutor(32, thread_name_prefix="embed-query")


def embed_queries(resources: Resources, index: Index, texts: Sequence[str], kept: KeptVectors = _kept) -> list[Vector]:
    """Embed queries with the index's own model. Returns float32 vectors of shape (dimensions,), in order.

    Texts are cut to the model's limit. Uncached texts go in one request, as far as the model's limits allow. Raises
    `EmbeddingError`; `EmbeddingUnavailable` if a provider does not answer within `QUERY_SECONDS`.
    """
    keys = {text: _key(resources, index, text) for text in texts}
    found = {text: vector for text, key in keys.items() if (vector := kept.get(key)) is not None}
    missing = {text: key for text, key in keys.items() if text not in found}
    if missing:
        model = _Model(index.settings.embedder, index.settings.explicit_dimensions)
        # the local model needs no timeout, and another thread would not be faster
        is_local = resources.budget(model.profile) is None
        found |= (_added if is_local else _added_in_time)(resources, kept, model, missing)
    return [found[text] for text in texts]


def _added_in_time(
    resources: Resources, kept: KeptVectors, model: _Model, missing: Mapping[str, _Key]
) -> Mapping[str, Vector]:
    """As `_added`, with a time limit. A late request goes on, and its vectors are cached for the next query."""
    litellm.warm()  # a process's first import takes longer than a provider is given
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
    """Embed texts and cache their vectors."""
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
        # rate limits do not delay queries, but a provider's request to back off does
        asked = send() if budget is None else budget.query(send, tokens=sum(tokens[place] for place in batch))
        rows |= zip(batch, asked, strict=True)
    return [rows[place] for place in range(len(texts))]


def _cut(resources: Resources, profile: EmbedderProfile, text: str) -> str:
    limit = profile.max_input_tokens
    if len(text.encode(errors="surrogatepass")) <= limit:
        return text  # a token has at least one byte, though one character may be several tokens
    starts = resources.tokenizer(profile).starts(text)
    return text if len(starts) <= limit else text[: starts[limit]]
