"""Limits the concurrent subqueries of a process in a namespace, first come, first served."""

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
    """The subqueries that may still start, and the queue of waiting requests."""

    free: int
    waiting: deque[_Waiting] = field(default_factory=deque)


class SubqueryTurns:
    """Schedules requests of several subqueries each, at most `most` subqueries at once per namespace. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        #: Only namespaces in use.
        self._namespaces: dict[str, _Namespace] = {}

    @contextmanager
    def hold(self, namespace: str, subqueries: int, deadline: float) -> Iterator[None]:
        """Run this many subqueries, at most `most`, once earlier ones have ended.

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
        """Release the subqueries of a request, or its place in the queue."""
        with self._lock:
            if waiting.turn.is_set():
                place.free += waiting.subqueries
            else:
                place.waiting.remove(waiting)
            self._grant(place)
            if place.free == self.most and not place.waiting:
                del self._namespaces[namespace]

    def _grant(self, place: _Namespace) -> None:
        """Start the first requests in the queue. Small ones never overtake a large one. Requires the lock."""
        while place.waiting and place.waiting[0].subqueries <= place.free:
            first = place.waiting.popleft()
            place.free -= first.subqueries
            first.turn.set()
