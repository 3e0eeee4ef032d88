"""Saves garbage collections during work that creates many objects and no garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects after which an indexing process collects garbage: those of some hundred chunks. Python's default of 700
#: scanned all chunks of a claim several times.
INDEXING_OBJECTS = 100_000
#: The same for a process that searches: those of some queries. With 700, most objects of a query were still in use, and
#: scanning them took a twentieth of it.
SEARCHING_OBJECTS = 20_000


def collect_rarely(objects: int = INDEXING_OBJECTS) -> None:
    """Collect garbage only after many new objects. Reference counts free nearly all of them."""
    gc.set_threshold(objects)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Run without garbage collection, which would scan all objects and free none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
