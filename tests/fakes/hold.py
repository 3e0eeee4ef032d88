"""Holds requests to a fake until a test releases them: before they are applied, or just before the answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Hold:
    """Holds every request of one kind whose path or body contains `containing`. `arrived`: ports of its clients."""

    kind: str
    containing: bytes
    after: bool
    arrived: list[int] = field(default_factory=list)
    _open: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Release the waiting requests, and hold no more."""
        self._open.set()

    def wait(self, port: int) -> None:
        """Wait for the release. Called by the fake."""
        self.arrived.append(port)
        self._open.wait()


class Holds:
    """The holds of one fake."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: list[Hold] = []

    def add(self, kind: str, containing: str = "", *, after: bool = False) -> Hold:
        """Hold requests from now until released."""
        hold = Hold(kind, containing.encode(), after)
        with self._lock:
            self._holds.append(hold)
        return hold

    def release(self) -> None:
        """Release all requests."""
        with self._lock:
            for hold in self._holds:
                hold.release()
            self._holds.clear()

    def wait(self, kind: str, content: bytes, port: int, *, after: bool) -> None:
        """Wait while a hold matches this request. Called by the fake, without its lock."""
        with self._lock:
            wanted = [h for h in self._holds if h.kind == kind and h.after == after and h.containing in content]
        for hold in wanted:
            hold.wait(port)
