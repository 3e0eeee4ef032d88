"""What most modules here start: a root for local folders, a provider's fake, the service with either model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import Service, environment, next_broker, service
from worker.settings import LOCAL_MODEL


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, redis_url: str, root: Path
) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root)}
    home = tmp_path_factory.mktemp("home")
    with service(environment(home, database_url, next_broker(redis_url), **env)) as started:
        yield started


@pytest.fixture(scope="module")
def with_provider(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, redis_url: str, root: Path, provider: EmbeddingsFake
) -> Iterator[Service]:
    """The service with the provider's model."""
    env = provider.env
    env |= {"LOCAL_SOURCE_ROOTS": str(root)}
    home = tmp_path_factory.mktemp("home")
    with service(environment(home, database_url, next_broker(redis_url), **env)) as started:
        yield started
