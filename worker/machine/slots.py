"""Bounds how many things of a kind a process does at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from schemas.errors import FoldexError

#: Seconds between two calls of `check` while a caller waits.
POLL_SECONDS = 0.1


class Slots:
    """As many slots as things may be done at the same time. Thread-safe."""

    def __init__(self, number: int) -> None:
        self._free = BoundedSemaphore(number)

    @contextmanager
    def within(self, seconds: float, busy: FoldexError) -> Iterator[None]:
        """Hold a slot. Raises `busy` if none becomes free within `seconds`."""
        if not self._free.acquire(timeout=seconds):
            raise busy
        with self._held():
            yield

    @contextmanager
    def waiting(self, check: Callable[[], None]) -> Iterator[None]:
        """Hold a slot, however long that takes. Until then `check` is called, which may raise to end the wait."""
        while not self._free.acquire(timeout=POLL_SECONDS):
            check()
        with self._held():
            yield

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._free.release()
