"""Bounds how many things of a kind a process does at the same time, shared fairly between projects."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock

from schemas.errors import FoldexError

#: Seconds between two calls of `check` while a caller waits.
POLL_SECONDS = 0.1


class Slots:
    """As many slots as things may be done at the same time. Thread-safe.

    An owner, such as a project, holds at most `per_owner` slots (None: as many as there are). A free slot goes to the
    waiting owner that holds the fewest; among equals, to the one that waits for longest.
    """

    def __init__(self, number: int, per_owner: int | None = None) -> None:
        self._free = number
        self._per_owner = number if per_owner is None else per_owner
        self._lock = Lock()
        self._held: Counter[str] = Counter()
        #: Waiting callers by owner. The owner that got a slot last stands last.
        self._waiting: dict[str, deque[Event]] = {}

    @contextmanager
    def within(self, seconds: float, busy: FoldexError, owner: str = "") -> Iterator[None]:
        """Hold a slot. Raises `busy` if none becomes free within `seconds`."""
        deadline = time.monotonic() + seconds

        def give_up() -> None:
            if time.monotonic() >= deadline:
                raise busy

        with self.waiting(give_up, owner):
            yield

    @contextmanager
    def waiting(self, check: Callable[[], None], owner: str = "") -> Iterator[None]:
        """Hold a slot, however long that takes. Until then `check` is called, which may raise to end the wait."""
        self._acquire(check, owner)
        try:
            yield
        finally:
            self._release(owner)

    def _acquire(self, check: Callable[[], None], owner: str) -> None:
        turn = Event()
        with self._lock:
            self._waiting.setdefault(owner, deque()).append(turn)
            self._grant()
        try:
            while not turn.wait(POLL_SECONDS):
                check()
        except BaseException:
            self._withdraw(turn, owner)
            raise

    def _withdraw(self, turn: Event, owner: str) -> None:
        with self._lock:
            if not turn.is_set():
                self._forget(turn, owner)
                return
        # granted in the last moment
        self._release(owner)

    def _release(self, owner: str) -> None:
        with self._lock:
            self._free += 1
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
            self._grant()

    def _grant(self) -> None:
        """Give free slots to callers that wait. Requires the lock."""
        while self._free:
            owners = [owner for owner in self._waiting if self._held[owner] < self._per_owner]
            if not owners:
                return
            owner = min(owners, key=self._held.__getitem__)
            turn = self._waiting[owner][0]
            self._forget(turn, owner)
            if owner in self._waiting:
                self._waiting[owner] = self._waiting.pop(owner)
            self._free -= 1
            self._held[owner] += 1
            turn.set()

    def _forget(self, turn: Event, owner: str) -> None:
        self._waiting[owner].remove(turn)
        if not self._waiting[owner]:
            del self._waiting[owner]
