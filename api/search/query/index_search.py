"""The values that pass between the steps of a search: what is asked, what is found, and what is reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from api.http.disconnect import Disconnect
from api.http.sight import SeenIndex
from api.search.query.filters import ResolvedFilters
from api.search.text.visibility import ids_of
from schemas.queries.search import Hit, Note, Query, Step
from worker.resources import Resources
from worker.vectors import VectorStore

#: Minimum rows of each leg: enough for fusion, even after dropping ids whose chunk is not live.
MIN_DEPTH = 100
#: Maximum rows of each leg.
MAX_DEPTH = 10_000


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The notes for the caller, and the timed steps of a part of a search that `trace: true` shows, in their order."""

    notes: tuple[Note, ...] = ()
    steps: tuple[Step, ...] = ()

    def __add__(self, later: SearchReport) -> SearchReport:
        """This report, continued by a later part's."""
        return SearchReport(self.notes + later.notes, self.steps + later.steps)


def note(code: str, detail: str) -> SearchReport:
    """A report of one note."""
    return SearchReport(notes=(Note(code=code, detail=detail),))


def ignore_step(_: Step) -> None:
    """Nobody waits for the steps of a search."""


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """A request over one index, as every step needs it. Each leg returns up to `depth` rows.

    With `whole_files`, files that are not embedded follow the hits. Keyword legs find them, so these run in every mode.
    `on_step` is called after each step. Only while the index `is_changing`, files may wait for their words.
    `vector_share`: of the chunks that get a vector, those that have it. With `words_wait`, words of some chunks may be
    in Postgres until the store gets these with their vectors.
    """

    resources: Resources
    index: SeenIndex
    store: VectorStore
    request: Query
    filters: ResolvedFilters
    depth: int
    whole_files: bool
    disconnect: Disconnect
    on_step: Callable[[Step], None] = ignore_step
    is_changing: bool = True
    vector_share: float = 1.0
    words_wait: bool = False

    def step(self, name: str, started: float, found: int | None = None, detail: str | None = None) -> SearchReport:
        """Report one step that ends now. It `started` at a time of `time.perf_counter`."""
        took_ms = round((time.perf_counter() - started) * 1000, 2)
        step = Step(step=name, took_ms=took_ms, found=found, detail=detail)
        self.on_step(step)
        return SearchReport(steps=(step,))

    @property
    def only(self) -> frozenset[UUID] | None:
        """The only files that the caller may read; None: all."""
        return ids_of(self.filters.visible)

    @property
    def uses_vectors(self) -> bool:
        """Whether vector legs run. Without any vector, the query is not even embedded: its provider may be away."""
        return self.request.mode != "keyword" and self.vector_share > 0

    @property
    def uses_keywords(self) -> bool:
        """Whether keyword legs run."""
        return self.request.mode != "vector" or self.whole_files


@dataclass(frozen=True, slots=True)
class Findings:
    """The hits of a search, best first, and what it reports. `vectors_missing`: the namespace lost all its vectors.

    `more` are the fields that its answer has besides those of `Answer`.
    """

    hits: Sequence[Hit]
    report: SearchReport = field(default_factory=SearchReport)
    vectors_missing: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
