"""The strict fake of Turbopuffer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.turbopuffer import FakeTurbopuffer


@pytest.fixture
def fake() -> Iterator[FakeTurbopuffer]:
    with FakeTurbopuffer() as server:
        yield server
