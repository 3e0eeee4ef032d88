"""The service that these modules share. It sends a provider two texts in each request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.buckets import buckets
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.shared import provider, root
from tests.service import NewService, Service

__all__ = ["provider", "root", "running"]


@pytest.fixture(scope="package")
def store() -> Iterator[FakeTurbopuffer]:
    with FakeTurbopuffer() as fake:
        yield fake


@pytest.fixture(scope="package")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake, store: FakeTurbopuffer) -> Iterator[Service]:
    env = {**provider.env, **store.env, "LOCAL_SOURCE_ROOTS": str(root), "SEARCH_SECONDS": "30"}
    env |= {"EMBEDDING_BATCH_SIZE": "2", "EMBEDDING_CONCURRENCY": "1"}
    with buckets() as s3, new_service(**env, **s3) as started:
        yield started


@pytest.fixture(autouse=True)
def calm(provider: EmbeddingsFake, store: FakeTurbopuffer) -> Iterator[None]:
    yield
    provider.holds.release()
    store.holds.release()
    store.refuse(None)
    provider.delay = 0
