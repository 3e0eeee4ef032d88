"""Fixtures that several modules of unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from worker.parse.sandbox import client as sandbox


@pytest.fixture(scope="module")
def helper() -> Iterator[None]:
    """Stop the helper processes at the end of each module."""
    yield
    sandbox.stop()
