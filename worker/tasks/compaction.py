"""Compacts the vectors of an index, in one process at a time: when a run has ended, and sometimes while it writes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import psycopg
import structlog

from schemas.errors import StoreError
from worker.resources import Resources
from worker.state.exclusive import try_exclusive
from worker.state.index.tools import Index

#: Minimum seconds between two checks of a process whether a run should be compacted.
LOOK_SECONDS = 20.0
#: After a compaction, its process does other work for this many times as long. So it compacts a tenth of its time.
REST = 9
#: Seconds that a compaction waits for another one. A run's own takes a few.
WAIT_SECONDS = 20.0
#: Seconds after which a stopped process no longer keeps others from compacting, more than any compaction takes.
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
    """Compact after whoever is doing so. Returns False if that takes too long."""
    ends = time.monotonic() + WAIT_SECONDS
    while not compact(resources, index):
        if time.monotonic() > ends:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


class CompactionTurns:
    """When a process next checks whether a run that it works on should be compacted."""

    def __init__(self) -> None:
        self._next = -math.inf

    def compacting(self, resources: Resources, index: Index, batches: Iterable[T]) -> Iterator[T]:
        """Yield the batches of a slice, and between them index what the run wrote, once that makes searches slow."""
        for batch in batches:
            yield batch
            began = time.monotonic()
            if began >= self._next:
                try:
                    compact(resources, index, writing=True)
                except (StoreError, psycopg.OperationalError) as error:
                    # the run itself goes on, and all is compacted at its end
                    log.warning("vectors not compacted", namespace=index.namespace, error=str(error))
                ended = time.monotonic()
                self._next = ended + max(LOOK_SECONDS, REST * (ended - began))
