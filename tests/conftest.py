"""Real servers for the whole test run: one Postgres, where each user gets a database, and one Redis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling, Scheduling

from api.stack import processes
from api.stack.postgres import postgres
from api.stack.redis import redis
from tests.fakes.buckets import buckets
from tests.service import NewService, Service, clean_environment, environment, new_database, next_broker, service
from worker.state.migrate import migrate

# The caller may provide a server: tests create their own databases there and drop them.
GIVEN_DATABASE = os.environ.get("DATABASE_URL")
clean_environment()

# Each process of a test run has its own ports: otherwise two servers that start at once may choose the same one.
MAX_PROCESSES = 16
PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % MAX_PROCESSES
processes.SERVER_PORTS = processes.SERVER_PORTS[PROCESS::MAX_PROCESSES]

#: Packages whose modules share a service: one process runs all of a package.
SHARED = {f"tests/integration/{name}" for name in ("local", "provider", "stores", "turbopuffer")}


class ByService(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Assigns whole files to processes; packages whose files share a service go to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        package = file.rpartition("/")[0]
        return package if package in SHARED else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return ByService(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on which databases can be created."""
    if GIVEN_DATABASE:
        yield GIVEN_DATABASE
    else:
        with postgres(tmp_path_factory.mktemp("postgres")) as url:
            yield url


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A separate Redis, because tests empty its databases."""
    with redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def template_url(postgres_url: str) -> Iterator[str]:
    """A migrated database; others are copies of it."""
    with new_database(postgres_url) as url:
        migrate(url)
        yield url


@pytest.fixture(scope="module")
def database_url(postgres_url: str, template_url: str) -> Iterator[str]:
    """A migrated database for one module."""
    with new_database(postgres_url, template_url) as url:
        yield url


@pytest.fixture(scope="session")
def new_service(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, template_url: str, redis_url: str
) -> NewService:
    @contextmanager
    def started(
        how: Callable[[Mapping[str, str]], AbstractContextManager[Service]] = service, **env: str
    ) -> Iterator[Service]:
        home, broker = tmp_path_factory.mktemp("home"), next_broker(redis_url)
        with new_database(postgres_url, template_url) as url, how(environment(home, url, broker, **env)) as running:
            yield running

    return started


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """The settings with which a service and this process use a separate S3 server."""
    with buckets() as env:
        yield env
