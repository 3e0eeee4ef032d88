"""Fixtures of packages whose modules share a service. The conftest of a package imports the ones it uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.embeddings import EmbeddingsFake


@pytest.fixture(scope="package")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="package")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake
