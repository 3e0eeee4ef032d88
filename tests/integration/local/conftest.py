"""The service that these modules share; each keeps to folders and words of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import NewService, Service
from worker.settings import LOCAL_MODEL


@pytest.fixture(scope="package")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="package")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with new_service(DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started
