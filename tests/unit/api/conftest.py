"""Closes what applications leave open that a test makes but does not start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from worker.state.pool import Pool, open_pool


@pytest.fixture(scope="module", autouse=True)
def close_pools() -> Iterator[None]:
    """Close the pools that open in a module, each of which has some twenty threads."""
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patch:

        def recorded(*args: Any, **options: Any) -> Pool:
            pool = open_pool(*args, **options)
            opened.callback(pool.close)
            return pool

        patch.setattr("worker.resources.open_pool", recorded)
        yield
