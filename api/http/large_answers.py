"""How many large answers are made at once: one of 10,000 hits takes some 100 MB until it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from schemas.errors import SearchBusy

#: Hits above which an answer is large, large answers at once, and seconds that a further one waits for its turn.
LARGE, AT_ONCE, PATIENCE = 1000, 2, 10.0


class Room:
    """The large answers that one process makes at a time. Thread-safe."""

    def __init__(self, at_once: int = AT_ONCE, patience: float = PATIENCE) -> None:
        self._free = BoundedSemaphore(at_once)
        self._patience = patience

    @contextmanager
    def answer(self, top_k: int) -> Iterator[None]:
        """Make an answer of up to `top_k` hits. Raises `SearchBusy` where a large one does not get its turn."""
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

#: Entered by whoever makes an answer in this process.
answer = _room.answer
