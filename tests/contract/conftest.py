"""A folder in each kind of source, and each vector store, for the suites that run over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.folders import TREE, Bucket, Disk, Folder, Tree
from tests.contract.stores import WITH_KEYWORDS, WITHOUT_KEYWORDS, make
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.state.pool import Pool
from worker.vectors import VectorStore
from worker.vectors.turbopuffer import TurbopufferStore


@pytest.fixture
def fake() -> Iterator[FakeTurbopuffer]:
    with FakeTurbopuffer() as server:
        yield server


@pytest.fixture(scope="module")
def endpoint_url(s3: dict[str, str]) -> str:
    return s3["S3_ENDPOINT_URL"]


@pytest.fixture
def bucket(endpoint_url: str) -> Bucket:
    return Bucket(endpoint_url)


@pytest.fixture
def tree(pool: Pool, tmp_path: Path) -> Tree:
    return Tree(pool, tmp_path / "objects")


@pytest.fixture(params=["disk", "bucket", "tree"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    folder: Folder = Disk(tmp_path) if request.param == "disk" else request.getfixturevalue(request.param)
    return folder


@pytest.fixture(params=[*WITHOUT_KEYWORDS, *WITH_KEYWORDS])
def store(request: pytest.FixtureRequest, tmp_path: Path, fake: FakeTurbopuffer) -> Iterator[VectorStore]:
    made = make(request.param, tmp_path, fake)
    yield made
    if isinstance(made, TurbopufferStore) and made._client is not None:
        # Python would warn of the last one's connection at its end
        made._client[1].close()


@pytest.fixture
def other(request: pytest.FixtureRequest, store: VectorStore, tmp_path: Path, fake: FakeTurbopuffer) -> VectorStore:
    """The same rows through a store with the opposite `has_keywords`."""
    name = request.node.callspec.params["store"].partition("-")[0]
    return make(name if store.has_keywords else f"{name}-keywords", tmp_path, fake)


@pytest.fixture
def space(store: VectorStore) -> Iterator[str]:
    name = f"foldex-test-{uuid4()}"
    yield name
    store.drop(name)


@pytest.fixture
def full(folder: Folder) -> Folder:
    for path, data in TREE.items():
        folder.write(path, data)
    return folder
