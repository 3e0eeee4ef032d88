"""Garbage collection of a process that indexes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from worker.machine.memory.gc_pause import collect_rarely
from worker.resources import preload
from worker.settings import LOCAL_MODEL, Settings


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_it_does_not_scan_the_objects_of_some_chunks() -> None:
    collect_rarely()
    cycle = weakref.ref(Cycle())
    kept = [[number] for number in range(10_000)]
    assert (cycle() is not None, len(kept)) == (True, 10_000)


def test_garbage_in_cycles_does_not_pile_up() -> None:
    collect_rarely()
    cycles = [weakref.ref(Cycle()) for _ in range(300_000)]
    assert sum(cycle() is not None for cycle in cycles) < 150_000


def test_worker_processes_do_so() -> None:
    preload(Settings(auth="off", default_embedding_model=LOCAL_MODEL, vector_store="lancedb"))
    as_preloaded = gc.get_threshold()
    collect_rarely()
    assert as_preloaded == gc.get_threshold() > (10_000,)
