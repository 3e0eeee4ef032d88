"""The seam to embedding models: texts in, one checked vector each out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.source import EmbedderProfile

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def profile(self) -> EmbedderProfile:
        """What an index records of the model; vectors of two profiles are never mixed."""
        ...

    @property
    def max_inputs(self) -> int:
        """Texts a request may hold."""
        ...

    @property
    def max_request_tokens(self) -> int:
        """Tokens a request may hold in all."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One request: float32 of shape (len(texts), dimensions), each row finite, not zero, of length 1.

        Raises `EmbeddingRefused`, `EmbeddingUnauthorized` or `EmbeddingUnavailable`.
        """
        ...
