"""Limits concurrent large answers: one of 10,000 hits takes about 100 MB until it is serialized."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from schemas.errors import SearchBusy

#: Hits above which an answer is large; concurrent large answers; seconds that another one waits for a slot.
LARGE, AT_ONCE, PATIENCE = 1000, 2, 10.0


class Room:
    """The slots for large answers in one process. Thread-safe."""

    def __init__(self, at_once: int = AT_ONCE, patience: float = PATIENCE) -> None:
        self._free = BoundedSemaphore(at_once)
        self._patience = patience

    @contextmanager
    def answer(self, top_k: int) -> Iterator[None]:
        """Hold a slot for an answer of up to `top_k` hits. Raises `SearchBusy` if a large one gets no slot in time."""
        if top_k <= LARGE:
            yield
            return
        if not self._free.acquire(timeout=self._patience):
            raise SearchBusy(f"Too many answers of over {LARGE:,} hits are made at once; try again, or lower top_k.")
        try:
            yield
        finally:
            self._free.release()


_room = Room()

#: The context manager in which this process makes its answers.
answer = _room.answer
