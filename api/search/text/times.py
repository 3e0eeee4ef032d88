"""Selects files by the time of their last change."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from schemas.queries.times import Times

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_matcher(times: Times) -> Callable[[int | None], bool] | None:
    """A function that tells whether a time in milliseconds since 1970 is in the range; None if every time is."""
    if times.modified_after is None and times.modified_before is None:
        return None
    first = -math.inf if times.modified_after is None else _milliseconds(times.modified_after)
    end = math.inf if times.modified_before is None else _milliseconds(times.modified_before)
    return lambda mtime_ms: mtime_ms is not None and first <= mtime_ms < end


def _milliseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)
