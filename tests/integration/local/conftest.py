"""The service that these modules share. Each module uses its own folders and words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.shared import root
from tests.service import NewService, Service
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings

__all__ = ["root", "running"]


@pytest.fixture(scope="package")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with new_service(DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


@pytest.fixture(scope="module")
def resources(running: Service) -> Iterator[Resources]:
    roots = [Path(running.env["LOCAL_SOURCE_ROOTS"])]
    opened = Resources(
        Settings(auth="off", database_url=running.database_url, foldex_home=running.home, local_source_roots=roots)
    )
    yield opened
    opened.pool.close()
