"""What several modules of unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from worker.parse import isolated


@pytest.fixture(scope="module")
def helper() -> Iterator[None]:
    """No helper process outlives the tests of a module."""
    yield
    isolated.stop()
