"""Fixtures of these modules: a root for local folders, a fake provider, the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import NewService, Service
from worker.settings import LOCAL_MODEL


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with new_service(DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started
