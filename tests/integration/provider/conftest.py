"""The service that these modules share. Each module uses its own folders and words, and counts from its own start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.buckets import buckets
from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.shared import provider, root
from tests.service import NewService, Service

__all__ = ["provider", "root", "running"]


@pytest.fixture(scope="package")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    env = {**provider.env, "LOCAL_SOURCE_ROOTS": str(root), "MAX_FILE_BYTES": "5000"}
    with buckets() as s3, new_service(**env, **s3) as started:
        yield started
