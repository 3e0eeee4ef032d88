"""What these modules open of the service that they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import Service
from worker.resources import Resources
from worker.settings import Settings


@pytest.fixture(scope="module")
def resources(running: Service) -> Iterator[Resources]:
    roots = [Path(running.env["LOCAL_SOURCE_ROOTS"])]
    opened = Resources(
        Settings(auth="off", database_url=running.database_url, foldex_home=running.home, local_source_roots=roots)
    )
    yield opened
    opened.pool.close()
