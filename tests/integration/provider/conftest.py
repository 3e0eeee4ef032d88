"""The service that these modules share; each keeps to folders and words of its own, and counts from where it began."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.buckets import buckets
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import NewService, Service


@pytest.fixture(scope="package")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="package")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture(scope="package")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    env = {**provider.env, "LOCAL_SOURCE_ROOTS": str(root), "MAX_FILE_BYTES": "5000"}
    with buckets() as s3, new_service(**env, **s3) as started:
        yield started
