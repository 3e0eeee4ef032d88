"""The service that these modules share. Each module uses its own folders and words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.shared import root
from tests.service import NewService, Service
from worker.settings import LOCAL_MODEL

__all__ = ["root", "running"]


@pytest.fixture(scope="package")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with new_service(DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started
