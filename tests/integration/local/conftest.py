"""The service that these modules share; each keeps to folders and words of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import Service, environment, new_database, next_broker, service
from worker.settings import LOCAL_MODEL


@pytest.fixture(scope="package")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="package")
def running(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, template_url: str, redis_url: str, root: Path
) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root)}
    home = tmp_path_factory.mktemp("home")
    with (
        new_database(postgres_url, template_url) as url,
        service(environment(home, url, next_broker(redis_url), **env)) as started,
    ):
        yield started
