"""Compacts the vectors of an index, in one process at a time: when a run has ended, and sometimes while it writes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar
from uuid import UUID

import psycopg
import structlog

from schemas.errors import StoreError
from worker.resources import Resources
from worker.state.exclusive import try_exclusive
from worker.state.index.tools import Index

#: Minimum seconds from the first slice of a run to its first check, and between two checks of a process.
LOOK_SECONDS = 20.0
#: Runs whose beginnings a process remembers. A run that it forgot is checked later.
MAX_RUNS = 1_000
#: After a compaction, its process does other work for this many times as long. So it compacts a tenth of its time.
REST = 9
#: Seconds that a compaction waits for another one. A run's own takes a few.
WAIT_SECONDS = 20.0
#: Seconds after which a stopped process no longer blocks other compactions, more than any compaction takes.
MAX_SECONDS = 900
#: Seconds between two attempts.
PAUSE_SECONDS = 0.5

T = TypeVar("T")

log = structlog.get_logger()


def compact(resources: Resources, index: Index, *, writing: bool = False) -> bool:
    """Compact unless another process is doing so. Returns False then. Raises `StoreUnavailable`."""
    with try_exclusive(resources.settings.session_url, f"compaction of {index.id}", seconds=MAX_SECONDS) as free:
        if free:
            resources.store(index.vector_store, index.keyword_index).optimize(index.namespace, writing=writing)
    return free


def compact_in_turn(resources: Resources, index: Index) -> bool:
    """Compact after the process that is doing so. Returns False if that takes too long."""
    ends = time.monotonic() + WAIT_SECONDS
    while not compact(resources, index):
        if time.monotonic() > ends:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


class CompactionTurns:
    """The next time at which a process checks whether its run should be compacted."""

    def __init__(self) -> None:
        self._next = 0.0
        self._began: dict[UUID, float] = {}

    def compacting(self, resources: Resources, index: Index, task_id: UUID, batches: Iterable[T]) -> Iterator[T]:
        """Yield the batches of a slice, and between them index what the run wrote, once that makes searches slow."""
        first = self._first_check(task_id)
        for batch in batches:
            yield batch
            began = time.monotonic()
            if began >= max(self._next, first):
                try:
                    compact(resources, index, writing=True)
                except (StoreError, psycopg.OperationalError) as error:
                    # the run continues, and everything is compacted at its end
                    log.warning("vectors not compacted", namespace=index.namespace, error=str(error))
                ended = time.monotonic()
                self._next = ended + max(LOOK_SECONDS, REST * (ended - began))

    def _first_check(self, task_id: UUID) -> float:
        began = self._began.setdefault(task_id, time.monotonic())
        if len(self._began) > MAX_RUNS:
            self._began.pop(next(iter(self._began)))
        return began + LOOK_SECONDS
