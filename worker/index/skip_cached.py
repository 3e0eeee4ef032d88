"""An embedder that skips texts that were cached while the request was queued."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from schemas.document import text_hash
from schemas.errors import EmbeddingRefused
from schemas.source import EmbedderProfile
from worker.embed import Embedder, Vectors
from worker.vectors import Vector


class Sparing:
    """Wraps `embedder` and skips texts that `lookup` finds by their hashes; `spared` collects those hashes.

    Meanwhile other slices, and other tools over the same texts, pay for them. Requests that start before the first
    answer skip the lookup: their texts were looked up just now.
    """

    def __init__(self, embedder: Embedder, lookup: Callable[[Sequence[str]], Mapping[str, Vector]]) -> None:
        self.spared: set[str] = set()
        self._embedder = embedder
        self._lookup = lookup
        self._answered = False

    @property
    def profile(self) -> EmbedderProfile:
        """See `Embedder`."""
        return self._embedder.profile

    @property
    def max_inputs(self) -> int:
        """See `Embedder`."""
        return self._embedder.max_inputs

    @property
    def max_request_tokens(self) -> int:
        """See `Embedder`."""
        return self._embedder.max_request_tokens

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        hashes = [text_hash(text) for text in texts]
        known = self._lookup(hashes) if self._answered else {}
        if not known:
            vectors = self._embedder.embed(texts)
            self._answered = True
            return vectors
        self.spared.update(known)
        wanted = [at for at, hash_ in enumerate(hashes) if hash_ not in known]
        asked = dict(zip(wanted, self._ask(texts, wanted), strict=True))
        return np.stack([asked[at] if at in asked else known[hash_] for at, hash_ in enumerate(hashes)])

    def _ask(self, texts: Sequence[str], wanted: Sequence[int]) -> Vectors | list[Vector]:
        try:
            return self._embedder.embed([texts[at] for at in wanted]) if wanted else []
        except EmbeddingRefused as refusal:
            # indices of the request as its sender knows it
            if "indices" in refusal.data:
                refusal.data["indices"] = [wanted[at] for at in refusal.data["indices"]]
            raise
