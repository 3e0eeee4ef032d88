"""What tests of rates have in common."""

from __future__ import annotations

import pytest

from tests.unit.worker.embed.rates import Hours


@pytest.fixture
def hours() -> Hours:
    return Hours()
