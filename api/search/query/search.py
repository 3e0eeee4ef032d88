"""The values that pass between the steps of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.http.disconnect import Disconnect
from api.search.query.filters import ResolvedFilters
from api.search.query.report import SearchReport, step
from schemas.queries.search import Answer, Hit, Query, SearchRequest, Step
from worker.resources import Resources
from worker.state.index.tools import Index
from worker.vectors import VectorStore

#: Minimum rows of each leg: enough for fusion, even after dropping ids whose chunk is not live.
MIN_DEPTH = 100
#: Maximum rows of each leg.
MAX_DEPTH = 10_000


def unheard(_: Step) -> None:
    """Nobody waits for the steps of a search."""


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """A request over one index, as every step needs it. Each leg returns up to `depth` rows.

    With `whole_files`, files that are not embedded follow the hits. Keyword legs find them, so these run in every mode.
    `on_step` is called after each step.
    """

    resources: Resources
    index: Index
    store: VectorStore
    request: SearchRequest
    filters: ResolvedFilters
    depth: int
    whole_files: bool
    disconnect: Disconnect
    on_step: Callable[[Step], None] = unheard

    def step(self, name: str, started: float, found: int | None = None, detail: str | None = None) -> SearchReport:
        """Report one step that ends now, as `report.step` does."""
        report = step(name, started, found, detail)
        for each in report.steps:
            self.on_step(each)
        return report

    @property
    def uses_vectors(self) -> bool:
        """Whether vector legs run."""
        return self.request.mode != "keyword"

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


@dataclass(frozen=True, slots=True)
class Finder:
    """How the hits of a checked query are found, and the model of the answer. `query` may differ from what was sent."""

    query: Query
    find: Callable[[IndexSearch], Findings]
    answer: type[Answer] = Answer
