"""Records the steps of a search for `trace: true`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from schemas.search import Note, Step


@dataclass(slots=True)
class Course:
    """The steps of one search, and the notes for its caller."""

    steps: list[Step] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step. The block fills in the step's results."""
        step = Step(step=name, took_ms=0)
        self.steps.append(step)
        started = time.perf_counter()
        try:
            yield step
        finally:
            step.took_ms = round((time.perf_counter() - started) * 1000, 2)

    def note(self, code: str, detail: str) -> None:
        """Add a note for the caller."""
        self.notes.append(Note(code=code, detail=detail))

    def has_note(self, code: str) -> bool:
        """Whether there is a note with this code."""
        return any(note.code == code for note in self.notes)
