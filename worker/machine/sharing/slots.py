"""Limits the concurrent operations of one kind in a process, shared fairly between projects."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Event, Lock
from typing import Protocol

from schemas.errors import FoldexError

#: Seconds between two calls of `check` while a caller waits.
POLL_SECONDS = 0.1
#: Seconds for which an owner that used slots counts as one that may need slots at any moment.
RECENT_SECONDS = 2.0
#: Maximum seconds that a slot stays empty.
MAX_REST_SECONDS = 5.0


class QueueFull(Exception):
    """Raised when the maximum number of callers of this owner wait."""


class Turn(Protocol):
    """A waiting caller. `set` is called once, in any thread, while the slots are locked."""

    def set(self) -> None:
        """Take the slot."""
        ...

    def is_set(self) -> bool:
        """Return whether it has the slot."""
        ...


class _LoopTurn:
    """A turn of a coroutine."""

    def __init__(self) -> None:
        self._is_set = False
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """See `Turn`."""
        self._is_set = True
        if self._waiter is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def is_set(self) -> bool:
        """See `Turn`."""
        return self._is_set

    async def wait(self) -> None:
        """Return once there is a slot."""
        # before it looks, so that no `set` in between is missed
        self._waiter = self._loop.create_future()
        if not self._is_set:
            await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class RecentOwners:
    """The most recent users of all `Slots` that share this. An owner without a name does not count as another owner.

    A race causes at most one wrong answer.
    """

    def __init__(self) -> None:
        self._last, self._last_at, self._other_at = "", -math.inf, -math.inf

    def note(self, owner: str) -> None:
        """Note that an owner uses slots."""
        if not owner:
            return
        if owner != self._last:
            self._last, self._other_at = owner, self._last_at
        self._last_at = time.monotonic()

    def has_others(self, owner: str) -> bool:
        """Return whether another owner used slots within `RECENT_SECONDS`."""
        other_at = self._other_at if owner == self._last else self._last_at
        return time.monotonic() - other_at < RECENT_SECONDS


class Slots:
    """One slot for each concurrent operation. Thread-safe.

    An owner, such as a project, holds at most `per_owner` slots (None: all). While another owner has used slots within
    `RECENT_SECONDS`, it gets only `beside` slots (None: the same). A free slot goes to the waiting owner that holds the
    fewest; among equals, to the one that has waited longest. At most `queue` callers of an owner wait (None: any
    number), and at most `queue_of_all` together, except that each owner may have one.

    Beside others, a slot that an owner held for a second stays empty for `rest` seconds before the owner gets it again,
    but for at most `MAX_REST_SECONDS`. Users of all slots with the same `recent` count as others.
    """

    def __init__(
        self,
        number: int,
        per_owner: int | None = None,
        *,
        beside: int | None = None,
        queue: int | None = None,
        queue_of_all: int | None = None,
        rest: float = 0.0,
        recent: RecentOwners | None = None,
    ) -> None:
        self._free = number
        self._per_owner = number if per_owner is None else per_owner
        self._beside = self._per_owner if beside is None else beside
        self._queue, self._queue_of_all = queue, queue_of_all
        self._rest, self._recent = rest, recent or RecentOwners()
        #: Owners that leave a slot empty, and until when.
        self._resting: list[tuple[str, float]] = []
        self._lock = Lock()
        self._held: Counter[str] = Counter()
        #: Waiting callers by owner. The owner that got the latest slot comes last.
        self._waiting: dict[str, deque[Turn]] = {}

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
        """Hold a slot, and wait for it without a limit. `check` is called meanwhile and may raise to end the wait.

        Raises `QueueFull`.
        """
        self._acquire(check, owner)
        began = time.monotonic()
        try:
            yield
        finally:
            self.release(owner, time.monotonic() - began)

    @asynccontextmanager
    async def of_call(self, seconds: float, owner: str = "") -> AsyncIterator[None]:
        """Hold a slot in a coroutine. Raises `TimeoutError` if none becomes free within `seconds`, and `QueueFull`."""
        turn = _LoopTurn()
        self.join(turn, owner)
        try:
            if not turn.is_set():
                async with asyncio.timeout(seconds):
                    await self._wait(turn)
        except BaseException:
            self._withdraw(turn, owner)
            raise
        began = time.monotonic()
        try:
            yield
        finally:
            self.release(owner, time.monotonic() - began)

    @contextmanager
    def lend(self, owner: str = "") -> Iterator[None]:
        """Release a slot of the caller during the block, then wait for a slot again without a limit."""
        self.release(owner)
        try:
            yield
        finally:
            self._acquire(_go_on, owner, is_bounded=False)

    def join(self, turn: Turn, owner: str, *, is_bounded: bool = True) -> None:
        """Wait for a slot, which is given by `turn.set()`. Raises `QueueFull`, if the queue `is_bounded`."""
        with self._lock:
            self._recent.note(owner)
            self._waiting.setdefault(owner, deque()).append(turn)
            self._grant()
            if is_bounded and not turn.is_set() and self._is_crowded(owner):
                self._forget(turn, owner)
                raise QueueFull

    def release(self, owner: str, held_seconds: float = 0.0) -> None:
        """Release a slot that was held for this many seconds."""
        with self._lock:
            self._recent.note(owner)
            if self._rest and self._recent.has_others(owner):
                rest = min(self._rest * held_seconds, MAX_REST_SECONDS)
                self._resting.append((owner, time.monotonic() + rest))
            self._free += 1
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
            self._grant()

    def holds_share(self, owner: str) -> bool:
        """Return whether an owner holds its maximum number of slots."""
        with self._lock:
            return self._held[owner] >= self._most(owner)

    def _acquire(self, check: Callable[[], None], owner: str, *, is_bounded: bool = True) -> None:
        turn = Event()
        self.join(turn, owner, is_bounded=is_bounded)
        try:
            while not turn.wait(POLL_SECONDS):
                self._grant_rested()
                check()
        except BaseException:
            self._withdraw(turn, owner)
            raise

    async def _wait(self, turn: _LoopTurn) -> None:
        """Return once the turn has come. The end of a rest wakes nobody."""
        while not turn.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS if self._rest else None):
                    await turn.wait()
            self._grant_rested()

    def _grant_rested(self) -> None:
        """Grant slots whose rest is over."""
        if self._rest:
            with self._lock:
                self._grant()

    def _is_crowded(self, owner: str) -> bool:
        """Return whether the queue is over its limit. Requires the lock."""
        of_owner = len(self._waiting[owner])
        if self._queue is not None and of_owner > self._queue:
            return True
        of_all = sum(map(len, self._waiting.values())) if self._queue_of_all is not None else 0
        return self._queue_of_all is not None and of_owner > 1 and of_all > self._queue_of_all

    def _withdraw(self, turn: Turn, owner: str) -> None:
        with self._lock:
            if not turn.is_set():
                self._forget(turn, owner)
                return
        # granted at the last moment
        self.release(owner)

    def _grant(self) -> None:
        """Give free slots to callers that wait. Requires the lock."""
        while self._free:
            owners = [owner for owner in self._waiting if self._held[owner] < self._most(owner)]
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

    def _most(self, owner: str) -> int:
        """Return the slots that an owner may hold now. Requires the lock."""
        if not self._recent.has_others(owner):
            return self._per_owner
        now = time.monotonic()
        self._resting = [each for each in self._resting if each[1] > now]
        return self._beside - sum(each[0] == owner for each in self._resting)

    def _forget(self, turn: Turn, owner: str) -> None:
        self._waiting[owner].remove(turn)
        if not self._waiting[owner]:
            del self._waiting[owner]


def _go_on() -> None:
    """Continue to wait."""
