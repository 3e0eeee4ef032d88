"""Real servers for the whole test run: one Postgres, where each user gets a database, and one Redis."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import hypothesis
import pytest
import structlog
from xdist.scheduler import LoadFileScheduling, Scheduling

from api.stack import processes
from api.stack.postgres import postgres
from api.stack.redis import redis
from tests.fakes.buckets import buckets
from tests.forked import SHARED_FORKS
from tests.service import NewService, Service, clean_environment, environment, new_database, next_broker, service
from tests.shared_service import API_ONLY, SharedService, group_of, keys_settings, local_settings
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool

# The caller may provide a server: tests create their own databases there and drop them.
GIVEN_DATABASE = os.environ.get("DATABASE_URL")
clean_environment()

# LiteLLM would ask for the loop of this thread and so make one that nobody closes. A later test would fail for it.
asyncio.set_event_loop(None)

# On a busy machine an example may take any time.
hypothesis.settings.register_profile(
    "untimed", hypothesis.settings(), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

SHARED = pytest.StashKey[SharedService]()

# Each process of a test run has its own ports: otherwise two servers that start at once may choose the same one.
MAX_PROCESSES = 16
PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % MAX_PROCESSES
processes.SERVER_PORTS = processes.SERVER_PORTS[PROCESS::MAX_PROCESSES]


class ByService(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Assigns whole files to processes; files that share a service go to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(super()._split_scope(nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collection the modules and tests, which stay: it would take a third of the time of this."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return ByService(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop a shared service after the last test of its group."""
    shared = item.config.stash.get(SHARED, None)
    if shared and (nextitem is None or group_of(_file(nextitem)) != group_of(_file(item))):
        shared.stop()


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.fixture(scope="session", autouse=True)
def _no_open_connections() -> Iterator[None]:
    """Close what this process kept open to providers. Python would warn of each connection at its end."""
    yield
    used = sys.modules.get("worker.embed.openai_api")
    if used:
        used._connections(os.getpid(), None).clear()


@pytest.fixture(scope="session", autouse=True)
def _forks() -> Iterator[None]:
    yield
    SHARED_FORKS.stop()


@pytest.fixture(autouse=True)
def _no_bound_ids() -> None:
    """Forget the ids that an earlier test bound to the log lines and messages of this thread."""
    structlog.contextvars.clear_contextvars()


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


@pytest.fixture(scope="module")
def pool(database_url: str) -> Iterator[Pool]:
    with open_pool(database_url) as opened:
        yield opened


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


@pytest.fixture(scope="session")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all folders that a shared service may read."""
    return tmp_path_factory.mktemp("roots")


@pytest.fixture(scope="module")
def root(shared_root: Path) -> Path:
    """The directory of a module's own folders."""
    return Path(mkdtemp(dir=shared_root))


@pytest.fixture(scope="session")
def shared_service(request: pytest.FixtureRequest, new_service: NewService) -> Iterator[SharedService]:
    shared = request.config.stash[SHARED] = SharedService(new_service)
    yield shared
    shared.stop()


@pytest.fixture(scope="module")
def running(shared_service: SharedService, shared_root: Path) -> Service:
    """A service over local folders. Modules that need other settings have their own."""
    return shared_service.get(local_settings(shared_root))


@pytest.fixture(scope="module")
def behind_keys(shared_service: SharedService, shared_root: Path) -> Service:
    """An API that asks for keys, without workers."""
    return shared_service.get(keys_settings(shared_root), API_ONLY)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """The settings with which a service and this process use a separate S3 server."""
    with buckets() as env:
        yield env
