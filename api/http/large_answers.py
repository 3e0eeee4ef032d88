"""Limits concurrent large answers: one of 10,000 hits takes about 100 MB until it is serialized."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schemas.errors import SearchBusy
from worker.machine.slots import Slots

#: Hits above which an answer is large.
LARGE_HITS = 1000
#: Large answers that a process makes at the same time.
MAX_CONCURRENT = 2
#: Seconds that a further large answer waits for a slot.
SLOT_SECONDS = 10.0


class LargeAnswerSlots:
    """The slots for large answers in one process. Thread-safe."""

    def __init__(self, slots: int = MAX_CONCURRENT, seconds: float = SLOT_SECONDS) -> None:
        self._slots = Slots(slots)
        self._seconds = seconds

    @contextmanager
    def answer(self, top_k: int) -> Iterator[None]:
        """Hold a slot for an answer of up to `top_k` hits. Raises `SearchBusy` if a large one gets no slot in time."""
        if top_k <= LARGE_HITS:
            yield
            return
        busy = f"Too many answers of over {LARGE_HITS:,} hits are in progress; try again, or lower top_k."
        with self._slots.within(self._seconds, SearchBusy(busy)):
            yield


_room = LargeAnswerSlots()

#: The context manager in which this process makes its answers.
answer = _room.answer
