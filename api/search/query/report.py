"""What a search reports besides its hits: notes for the caller, and the steps that `trace: true` shows."""

from __future__ import annotations

import time
from dataclasses import dataclass

from schemas.queries.search import Note, Step


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The notes and the timed steps of a part of a search, in their order."""

    notes: tuple[Note, ...] = ()
    steps: tuple[Step, ...] = ()

    def __add__(self, later: SearchReport) -> SearchReport:
        """This report, continued by a later part's."""
        return SearchReport(self.notes + later.notes, self.steps + later.steps)


def note(code: str, detail: str) -> SearchReport:
    """A report of one note."""
    return SearchReport(notes=(Note(code=code, detail=detail),))


def step(name: str, started: float, found: int | None = None, detail: str | None = None) -> SearchReport:
    """A report of one step that ends now. It `started` at a time of `time.perf_counter`."""
    took_ms = round((time.perf_counter() - started) * 1000, 2)
    return SearchReport(steps=(Step(step=name, took_ms=took_ms, found=found, detail=detail),))
