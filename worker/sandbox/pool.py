"""Helpers that the threads of a process share, fairly between projects."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Timer
from typing import Any

from schemas.errors import SourceBusy
from worker.machine.sharing.slots import Slots
from worker.sandbox.helper import Helper
from worker.sandbox.protocol import Answer, Bounds

#: Seconds that a request waits for a helper.
WAIT_SECONDS = 6.0
#: Seconds after which a helper without requests ends. A start takes half a second.
IDLE_SECONDS = 60.0
_BUSY = "Too many files are being opened; try again shortly."


@dataclass(frozen=True, slots=True)
class HelperLimits:
    """The number of helpers of a process, and the limits of a request.

    No request takes more than `seconds` of processor time, or `patience` times as many on the clock. `niceness` is
    added to the niceness of the helpers.
    """

    number: int
    seconds: float
    patience: float
    niceness: int = 0


#: For workers, which do one thing at a time.
PATIENT = HelperLimits(1, seconds=60.0, patience=10.0)
#: For the API: a caller waits for the answer, and other projects for the helper. Other calls have priority, and the
#: helper is as nice as workers are.
BRISK = HelperLimits(2, seconds=5.0, patience=3.0, niceness=5)


class HelperPool:
    """The helpers of a process. A project uses at most all but one, if there are several."""

    def __init__(self, limits: HelperLimits, *, max_seconds: float, memory_bytes: int) -> None:
        self.seconds, self.patience = min(limits.seconds, max_seconds), limits.patience
        self.memory_bytes = memory_bytes
        number = limits.number
        self._slots = Slots(number, max(1, number - 1))
        self._lock = Lock()
        #: Idle helpers. The one that answered last comes last.
        self._free = [Helper(limits.niceness) for _ in range(number)]
        self._used_at: dict[Helper, float] = {}
        self._timer: Timer | None = None

    @contextmanager
    def borrow(self, owner: str, container: str | None = None) -> Iterator[Helper]:
        """Borrow a helper for a request: the one that keeps the container open, if it is free. Raises `SourceBusy`."""
        with self._slots.within(WAIT_SECONDS, SourceBusy(_BUSY), owner):
            helper = self._take(container)
            try:
                yield helper
            finally:
                self._give_back(helper)

    def stop(self) -> None:
        """End all helpers that are not in use."""
        for helper in [*self._free]:
            helper.stop(wait=False)

    def _take(self, container: str | None) -> Helper:
        with self._lock:
            keepers = (helper for helper in self._free if container is not None and helper.keeps(container))
            helper = next(keepers, self._free[-1])
            self._free.remove(helper)
            return helper

    def _give_back(self, helper: Helper) -> None:
        with self._lock:
            self._free.append(helper)
            self._used_at[helper] = time.monotonic()
            if self._timer is None:
                self._await_idleness()

    def _await_idleness(self) -> None:
        self._timer = Timer(IDLE_SECONDS, self._end_idle)
        self._timer.daemon = True
        self._timer.start()

    def _end_idle(self) -> None:
        """End helpers that have been idle for a while."""
        with self._lock:
            self._timer = None
            since = time.monotonic() - IDLE_SECONDS
            for helper in self._free:
                if self._used_at.get(helper, 0.0) <= since:
                    helper.stop(wait=False)
            if any(helper.running for helper in self._used_at):
                self._await_idleness()


@dataclass(frozen=True, slots=True)
class ProjectHelpers:
    """The helpers of a pool for one project."""

    pool: HelperPool
    project_id: str

    def ask(self, head: Mapping[str, Any], data: bytes, bounds: Bounds) -> Answer:
        """Return the answer to a request. Raises `FileError`, or `SourceBusy` if no helper is free in time."""
        with self.pool.borrow(self.project_id) as helper:
            return helper.ask(_limited(head, bounds), data, bounds)

    def ask_keeper(self, container: str, head: Mapping[str, Any], bounds: Bounds) -> Answer | None:
        """Return the answer to a request about a container that a free helper keeps open; None if there is none."""
        with self.pool.borrow(self.project_id, container) as helper:
            return helper.ask_keeper(container, _limited(head, bounds), bounds)

    def at_most(self, seconds: float) -> float:
        """Return the processor seconds for a request: those requested, up to the limit."""
        return min(seconds, self.pool.seconds)


def _limited(head: Mapping[str, Any], bounds: Bounds) -> Mapping[str, Any]:
    return {**head, "limits": {"seconds": bounds.seconds, "memory_bytes": bounds.memory_bytes}}
