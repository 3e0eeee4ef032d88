"""Runs several searches side by side. Notes name those that fail or are slow; the others answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

import structlog
from psycopg import DataError

from api.http.disconnect import CallerLeft, Disconnect
from api.http.shares import ACROSS_THREADS, UNNAMED
from api.search.across.merge import ToolHits
from api.search.query.filters import spell_filters
from schemas.errors import FilterMatchesNothing, FoldexError, SearchSlow
from schemas.queries.across import Searched
from schemas.queries.search import Note, SearchRequest

#: Seconds between two checks whether the caller has disconnected.
POLL_SECONDS = 0.1

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one job. `searched` is None for unindexed files."""

    part: ToolHits
    searched: Searched | None
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One search to run. Notes call it by `name`."""

    name: str
    run: Callable[[Disconnect], JobResult]


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of a named job: a result or an error; neither if it took too long."""

    name: str
    result: JobResult | None = None
    error: Exception | None = None


def run_side_by_side(
    jobs: Sequence[Job], deadline: float, disconnect: Disconnect, owner: str = UNNAMED
) -> list[JobOutcome]:
    """Run jobs of a project, the `owner`, in parallel, and return their outcomes in order.

    They end at `deadline`, a time of `time.monotonic`. Unfinished jobs are told to stop. Raises `CallerLeft`.
    """
    stops = [Disconnect() for _ in jobs]
    futures = [ACROSS_THREADS.submit(owner, partial(job.run, stop)) for job, stop in zip(jobs, stops, strict=True)]
    pending = set(futures)
    try:
        while pending and (remaining := deadline - time.monotonic()) > 0:
            pending = wait(pending, min(POLL_SECONDS, remaining)).not_done
            disconnect.check()
        return [
            JobOutcome(job.name) if future in pending else _outcome(job.name, future)
            for job, future in zip(jobs, futures, strict=True)
        ]
    finally:
        for stop in stops:
            stop.event.set()
        for future in futures:
            future.cancel()


def _outcome(name: str, future: Future[JobResult]) -> JobOutcome:
    try:
        return JobOutcome(name, result=future.result())
    except (CallerLeft, DataError):
        # a value that Postgres rejects is the request's fault, not a tool's
        raise
    except FoldexError as error:
        return JobOutcome(name, error=error)
    except Exception as error:  # one failed job must not cost the others' answers
        log.warning("a search among several failed", name=name, exc_info=error)
        return JobOutcome(name, error=error)


def check_answered(outcomes: Sequence[JobOutcome], request: SearchRequest) -> None:
    """Raise an error that names all failed and slow jobs, if none has answered.

    Prefers a retryable error, else takes the first. Raises `FilterMatchesNothing` if the filters matched nothing in
    every job.
    """
    if any(outcome.result is not None for outcome in outcomes):
        return
    slow = SearchSlow("No tool answered within SEARCH_SECONDS; try again, or raise that setting.")
    errors = [outcome.error or slow for outcome in outcomes if not isinstance(outcome.error, FilterMatchesNothing)]
    if not errors:
        raise _no_match(outcomes, request)
    foldex_errors = [error for error in errors if isinstance(error, FoldexError)]
    error = next((error for error in foldex_errors if error.retryable), errors[0])
    if len(outcomes) == 1 or not isinstance(error, FoldexError):
        raise error
    details = " ".join(note.detail for outcome in outcomes for note in notes_of(outcome))
    raise error.with_message(f"No tool answered. {details}")


def _no_match(outcomes: Sequence[JobOutcome], request: SearchRequest) -> FilterMatchesNothing:
    filters = spell_filters(request.filters)
    hints = "".join(dict.fromkeys(_hint(outcome.error) for outcome in outcomes))
    return FilterMatchesNothing(f"No indexed file of any tool matches the filters {filters}; widen them.{hints}")


def notes_of(outcome: JobOutcome) -> Sequence[Note]:
    """The notes of a job's result, or one that says why it has none."""
    name, error = outcome.name, outcome.error
    if outcome.result is not None:
        return outcome.result.notes
    if error is None:
        return [Note(code="tool_slow", detail=f"{name} did not answer within SEARCH_SECONDS and was left out.")]
    if isinstance(error, FilterMatchesNothing):
        return [Note(code=error.code, detail=f"{name} has no indexed file that matches the filters.{_hint(error)}")]
    # the text of a foreign error may hold details that callers must not see
    if isinstance(error, FoldexError):
        reason = f"{error.code}: {error.message}"
    else:
        reason = "an internal error; see the server's log."
    return [Note(code="tool_failed", detail=f"{name} failed with {reason}")]


def _hint(error: Exception | None) -> str:
    """The hint of an error: what the tool has instead of what the filters ask for."""
    return error.hint if isinstance(error, FilterMatchesNothing) else ""
