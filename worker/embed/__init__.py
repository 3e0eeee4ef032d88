"""The interface to embedding models: texts in, one validated vector per text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.content.source import EmbedderProfile

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def profile(self) -> EmbedderProfile:
        """The model's entry in an index's settings. Vectors of different profiles are never mixed."""
        ...

    @property
    def max_inputs(self) -> int:
        """Maximum number of texts in a request."""
        ...

    @property
    def max_request_tokens(self) -> int:
        """Maximum number of tokens in a request, over all its texts."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Send one request. Returns float32 of shape (len(texts), dimensions), each row finite and of length 1.

        Raises `EmbeddingRefused`, `EmbeddingUnauthorized` or `EmbeddingUnavailable`.
        """
        ...


class WrappedEmbedder:
    """Forwards the properties of `embedder`. Subclasses define `embed`."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

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
