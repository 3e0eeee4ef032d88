"""Fixtures of these modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from worker.state.pool import Pool, open_pool


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture(scope="module")
def pool(database_url: str) -> Iterator[Pool]:
    with open_pool(database_url) as opened:
        yield opened
