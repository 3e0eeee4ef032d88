"""Fixtures of these modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.embeddings import EmbeddingsFake


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake
