"""A folder of each kind for the suites that run over all sources, and the strict fake of Turbopuffer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from tests.contract.folders import Bucket, Disk, Folder, Tree
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.state import Pool, open_pool


@pytest.fixture
def fake() -> Iterator[FakeTurbopuffer]:
    with FakeTurbopuffer() as server:
        yield server


@pytest.fixture(scope="module")
def endpoint_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint_url: str) -> Bucket:
    return Bucket(endpoint_url)


@pytest.fixture(scope="module")
def pool(database_url: str) -> Iterator[Pool]:
    with open_pool(database_url) as pool:
        yield pool


@pytest.fixture
def tree(pool: Pool, tmp_path: Path) -> Tree:
    return Tree(pool, tmp_path / "objects")


@pytest.fixture(params=["disk", "bucket", "tree"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    folder: Folder = Disk(tmp_path) if request.param == "disk" else request.getfixturevalue(request.param)
    return folder
