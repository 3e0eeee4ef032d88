"""A wall clock that jumps: on a worker's path, it is wrong by JUMP seconds, alternately forward and back.

`time.monotonic` stays right, as on a machine whose clock is set.
"""
# ruff: noqa: INP001 - Python finds it by its name on PYTHONPATH, not as part of a package

from __future__ import annotations

import datetime as dt
import os
import time
from datetime import datetime

JUMP = int(os.environ["JUMP"])
#: Seconds between two jumps.
PERIOD = 2.0

_time, _time_ns = time.time, time.time_ns


def wrong_by() -> int:
    """The present error in seconds."""
    return JUMP if time.monotonic() // PERIOD % 2 else -JUMP


class _AnyDatetime(type):
    """Accepts real datetimes as well, because C code keeps creating those."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


class _Wrong(datetime, metaclass=_AnyDatetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> datetime:  # type: ignore[override] # a real datetime is enough
        return datetime.now(tz) + dt.timedelta(seconds=wrong_by())

    @classmethod
    def utcnow(cls) -> datetime:  # type: ignore[override] # as above
        return cls.now(dt.UTC).replace(tzinfo=None)


time.time = lambda: _time() + wrong_by()
time.time_ns = lambda: _time_ns() + wrong_by() * 10**9
dt.datetime = _Wrong  # type: ignore[misc] # replaced for all importers
