"""What modules here start: a root for local folders, a provider's fake, a server of buckets, the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

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
def s3() -> Iterator[dict[str, str]]:
    """What a service and this process need to use a server of S3's own."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        yield {"S3_ENDPOINT_URL": f"http://{host}:{port}", **keys}
    server.stop()


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, redis_url: str, root: Path
) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root)}
    home = tmp_path_factory.mktemp("home")
    with service(environment(home, database_url, next_broker(redis_url), **env)) as started:
        yield started
