"""Embeds queries and caches recent vectors per process, because agents repeat their queries."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from threading import Lock
from typing import NamedTuple

from api.http.shares import ACROSS_THREADS, SEARCHES, elsewhere
from api.search.query.coalesce import Coalescer
from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, Excess
from worker.embed import provider
from worker.embed.batching import SHORTEST_CUT, pack
from worker.machine.memory.api_memory import ApiMemory
from worker.machine.sharing.fair_cache import FairCache
from worker.resources import Resources
from worker.state.index.tools import Index
from worker.tokens.tokenizers import truncated
from worker.vectors import Vector

#: Maximum bytes of the cached vectors, unless `API_MEMORY_MB` sets another number.
CACHE_BYTES = ApiMemory().query_vectors
#: Assumed bytes of a cached vector without its values.
_OVERHEAD_BYTES = 256
#: Seconds that a query waits for a provider. Keywords answer sooner, and the request holds one of few threads.
QUERY_SECONDS = 4.0
#: Requests to providers that run at a time: as many as searches, so that none waits for a thread of another's.
PROVIDER_THREADS = SEARCHES.total + ACROSS_THREADS.number
#: Seconds that a text waits for a request to its provider that is in flight, before another is sent.
PROVIDER_QUEUED_SECONDS = 0.01
#: Seconds that a query waits for the local model, which answers however busy the machine is.
LOCAL_SECONDS = 60.0
#: The same as for providers. A text alone takes as long as four together, so that texts wait for each other longer.
LOCAL_QUEUED_SECONDS = 0.05
#: Models whose requests a process coalesces.
MAX_COALESCERS = 64
#: Characters of a token, for an estimate of a request's tokens.
CHARACTERS_PER_TOKEN = 4

#: Project, model, provider address, text hash. Without the project, timing would reveal other projects' queries.
_Key = tuple[str, EmbedderProfile, str | None, bytes]


class _QueryModel(NamedTuple):
    profile: EmbedderProfile
    explicit_dimensions: bool


def _vectors(size: int) -> FairCache[_Key, Vector]:
    return FairCache(size, lambda key: key[0], lambda vector: vector.nbytes + _OVERHEAD_BYTES)


class VectorCache:
    """A cache of vectors, fair between projects, by project, model, provider address and text hash. Thread-safe."""

    def __init__(self, size: int = CACHE_BYTES) -> None:
        self._lock = Lock()
        self._vectors = _vectors(size)

    def limit(self, size: int) -> None:
        """Begin anew, with another size."""
        with self._lock:
            self._vectors = _vectors(size)

    def get(self, key: _Key) -> Vector | None:
        """The cached vector of shape (dimensions,), or None."""
        with self._lock:
            return self._vectors.get(key)

    def add(self, key: _Key, row: Vector) -> Vector:
        """Cache a read-only copy of `row` if it fits, and return it. A view would keep the whole response in memory."""
        vector = row.copy()
        vector.setflags(write=False)
        with self._lock:
            if vector.nbytes + _OVERHEAD_BYTES <= self._vectors.maxsize:
                self._vectors[key] = vector
        return vector


_process_cache = VectorCache()
#: Limits the vectors that this process keeps.
limit_cache = _process_cache.limit
#: Runs requests to providers, so that abandoned ones do not block the threads that serve HTTP.
_provider_threads = ThreadPoolExecutor(PROVIDER_THREADS, thread_name_prefix="embed-query")
#: Runs the local model, once per processor: more threads would not be faster.
_local_threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="embed-local")


def embed_queries(
    resources: Resources, index: Index, texts: Sequence[str], cache: VectorCache = _process_cache
) -> list[Vector]:
    """Embed queries with the index's own model. Returns float32 vectors of shape (dimensions,), in order.

    Texts are cut to the model's limit. Uncached texts go in one request, as far as the model's limits allow. Raises
    `EmbeddingError`; `EmbeddingUnavailable` if a provider does not answer within `QUERY_SECONDS`.
    """
    with begin_queries(resources, index, texts, cache) as result:
        return result()


@contextmanager
def begin_queries(
    resources: Resources, index: Index, texts: Sequence[str], cache: VectorCache = _process_cache
) -> Iterator[Callable[[], list[Vector]]]:
    """Begin to embed queries. Yields what waits for the vectors, as `embed_queries` does.

    If nobody waits until the end, a request that is not sent yet need not be sent.
    """
    keys = {text: _key(resources, index, text) for text in texts}
    vectors = {text: vector for text, key in keys.items() if (vector := cache.get(key)) is not None}
    missing = {text: key for text, key in keys.items() if text not in vectors}
    if not missing:
        yield lambda: [vectors[text] for text in texts]
        return
    model = _QueryModel(index.settings.embedder, index.settings.explicit_dimensions)
    is_local = resources.budget(model.profile) is None
    if not is_local:
        provider.warm(model.profile.model)  # a process's first import takes longer than a provider is given
    coalescer = _coalescer(resources, cache, model, is_local=is_local)
    future = coalescer.begin(missing)

    def result() -> list[Vector]:
        embedded = {**vectors, **_in_time(partial(coalescer.wait, future), model, is_local=is_local)}
        return [embedded[text] for text in texts]

    try:
        yield result
    finally:
        future.cancel()


def _in_time(
    wait: Callable[[float], Mapping[str, Vector]], model: _QueryModel, *, is_local: bool
) -> Mapping[str, Vector]:
    """Return the result of `wait` within the time limit. A late request continues, and the cache gets its vectors."""
    seconds = LOCAL_SECONDS if is_local else QUERY_SECONDS
    try:
        with nullcontext() if is_local else elsewhere():
            return wait(seconds)
    except TimeoutError as error:
        remedy = "" if is_local else " If this persists, check the provider and EMBEDDING_API_BASE."
        raise EmbeddingUnavailable(
            f"{model.profile.model} did not answer within {seconds:g} s; try again.{remedy}"
        ) from error


@lru_cache(maxsize=MAX_COALESCERS)
def _coalescer(
    resources: Resources, cache: VectorCache, model: _QueryModel, *, is_local: bool
) -> Coalescer[_Key, Vector]:
    send = partial(_embed_and_cache, resources, cache, model)
    if is_local:
        return Coalescer(send, _local_threads, LOCAL_QUEUED_SECONDS)
    return Coalescer(send, _provider_threads, PROVIDER_QUEUED_SECONDS)


def _embed_and_cache(
    resources: Resources, cache: VectorCache, model: _QueryModel, texts: Mapping[str, _Key], *, is_shared: bool
) -> dict[str, Vector]:
    rows = _embed(resources, model, list(texts), is_shared=is_shared)
    return {text: cache.add(key, row) for (text, key), row in zip(texts.items(), rows, strict=True)}


def _key(resources: Resources, index: Index, text: str) -> _Key:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    return index.project_id, index.settings.embedder, resources.settings.embedding_api_base, digest


def _embed(resources: Resources, model: _QueryModel, texts: Sequence[str], *, is_shared: bool) -> list[Vector]:
    """The vectors of texts. A request that `is_shared` by callers is not split to find the text at fault."""
    limit, tokenizer = model.profile.max_input_tokens, partial(resources.tokenizer, model.profile)
    inputs = [truncated(text, limit, tokenizer) for text in texts]
    tokens = [len(text) // CHARACTERS_PER_TOKEN + 1 for text in inputs]
    explicit = model.explicit_dimensions
    embedder = resources.embedder(model.profile, explicit_dimensions=explicit, for_queries=True)
    budget = resources.budget(model.profile)
    limits = embedder.max_inputs, embedder.max_request_tokens
    waiting = deque(pack(tokens, *(limits if budget is None else budget.largest_request(*limits))))
    rows: dict[int, Vector] = {}
    while waiting:
        batch = waiting.popleft()
        send = partial(embedder.embed, [inputs[number] for number in batch])
        try:
            # rate limits do not delay queries, but a provider's request to back off does
            vectors = send() if budget is None else budget.query(send, tokens=sum(tokens[number] for number in batch))
        except EmbeddingRefused as refusal:
            if budget is not None:
                budget.note_refusal(refusal, [tokens[number] for number in batch])
            if is_shared and refusal.excess in {None, Excess.LENGTH}:
                raise
            waiting.extendleft(_smaller(refusal, batch, inputs))
        else:
            rows |= zip(batch, vectors, strict=True)
    return [rows[number] for number in range(len(texts))]


def _smaller(refusal: EmbeddingRefused, batch: list[int], inputs: list[str]) -> list[list[int]]:
    """The requests to send instead of a refused one: each text alone, and one that is too long cut to its first half.

    Raises the refusal if the text itself was refused.
    """
    if len(batch) > 1:
        return [[number] for number in reversed(batch)]
    (number,) = batch
    if refusal.excess is not Excess.LENGTH or len(inputs[number]) < SHORTEST_CUT:
        raise refusal
    inputs[number] = inputs[number][: len(inputs[number]) // 2]
    return [batch]
