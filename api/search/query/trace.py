"""What a search did, step by step, for `trace: true`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from schemas.search import Note, Step


@dataclass(slots=True)
class Course:
    """The course of one search: the steps it took, and what its caller should know of them."""

    steps: list[Step] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step; what it found is for the block to write into it."""
        step = Step(step=name, took_ms=0)
        self.steps.append(step)
        started = time.perf_counter()
        try:
            yield step
        finally:
            step.took_ms = round((time.perf_counter() - started) * 1000, 2)

    def note(self, code: str, detail: str) -> None:
        """Tell the caller."""
        self.notes.append(Note(code=code, detail=detail))

    def has_note(self, code: str) -> bool:
        """Whether the caller was told so."""
        return any(note.code == code for note in self.notes)
