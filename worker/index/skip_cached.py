"""An embedder that skips texts that were cached while the request was queued."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from schemas.content.document import text_hash
from schemas.errors import EmbeddingRefused
from worker.embed import Embedder, Vectors, WrappedEmbedder
from worker.vectors import Vector


class CacheFirstEmbedder(WrappedEmbedder):
    """Wraps `embedder` and skips texts whose hashes `lookup` finds; `cached` collects these hashes.

    Other slices, and other tools over the same texts, may pay for them at the same time. Requests that start before the
    first answer skip the lookup of `fresh` hashes, which were just looked up.
    """

    def __init__(
        self,
        embedder: Embedder,
        lookup: Callable[[Sequence[str]], Mapping[str, Vector]],
        fresh: Collection[str],
    ) -> None:
        super().__init__(embedder)
        self.cached: set[str] = set()
        self._lookup = lookup
        self._fresh = fresh
        self._answered = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        hashes = [text_hash(text) for text in texts]
        asked = hashes if self._answered else [hash_ for hash_ in hashes if hash_ not in self._fresh]
        cached = self._lookup(asked) if asked else {}
        if not cached:
            vectors = self._embedder.embed(texts)
            self._answered = True
            return vectors
        self.cached.update(cached)
        missing = [index for index, hash_ in enumerate(hashes) if hash_ not in cached]
        embedded = dict(zip(missing, self._embed_some(texts, missing), strict=True))
        return np.stack([embedded[i] if i in embedded else cached[hash_] for i, hash_ in enumerate(hashes)])

    def _embed_some(self, texts: Sequence[str], indices: Sequence[int]) -> Vectors | list[Vector]:
        try:
            return self._embedder.embed([texts[index] for index in indices]) if indices else []
        except EmbeddingRefused as refusal:
            # the caller identifies the texts by their positions in its own request
            raise refusal.at(indices) from refusal
