"""Bounds the subqueries that a process runs at once in a namespace. Whoever came first goes first."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock

from schemas.errors import StoreUnavailable

#: Seconds after which a search that found no turn is worth another try.
RETRY_SECONDS = 1.0


@dataclass(eq=False)
class _Waiting:
    """A request that waits for its turn."""

    subqueries: int
    turn: Event = field(default_factory=Event)


@dataclass
class _Namespace:
    """The subqueries that may still start, and the requests that wait, in their order."""

    free: int
    waiting: deque[_Waiting] = field(default_factory=deque)


class SubqueryTurns:
    """Turns of requests with several subqueries each, at most `most` of these at once in a namespace. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        #: Only those in use.
        self._namespaces: dict[str, _Namespace] = {}

    @contextmanager
    def hold(self, namespace: str, subqueries: int, deadline: float) -> Iterator[None]:
        """Run so many subqueries, at most `most`, once those before have ended.

        Raises `StoreUnavailable` if that is not before the `deadline`, a time of `time.monotonic`.
        """
        waiting = _Waiting(subqueries)
        with self._lock:
            place = self._namespaces.setdefault(namespace, _Namespace(self.most))
            place.waiting.append(waiting)
            self._grant(place)
        try:
            if not waiting.turn.wait(max(0.0, deadline - time.monotonic())):
                said = "This folder has as many searches as Turbopuffer runs at once; try again shortly."
                raise StoreUnavailable(said, retry_after=RETRY_SECONDS)
            yield
        finally:
            self._end(namespace, place, waiting)

    def _end(self, namespace: str, place: _Namespace, waiting: _Waiting) -> None:
        """Give back what a request holds, or its place in the line."""
        with self._lock:
            if waiting.turn.is_set():
                place.free += waiting.subqueries
            else:
                place.waiting.remove(waiting)
            self._grant(place)
            if place.free == self.most and not place.waiting:
                del self._namespaces[namespace]

    def _grant(self, place: _Namespace) -> None:
        """Let the first requests start. A large one is not overtaken by small ones. Requires the lock."""
        while place.waiting and place.waiting[0].subqueries <= place.free:
            first = place.waiting.popleft()
            place.free -= first.subqueries
            first.turn.set()
