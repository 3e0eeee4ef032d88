"""Compares the namespace of summaries with their rows, id by id, and repairs it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from worker.state.index.tools import TREE, Index
from worker.state.pool import Pool
from worker.state.tree import views
from worker.vectors import VectorStore

#: Maximum number of ids read at a time, and of vectors deleted per request.
PAGE = 5000


@dataclass(frozen=True, slots=True)
class TreeReport:
    """`live`: current summaries. `missing`: summaries without a vector. `stray`: vectors without a row or tombstone."""

    live: int
    missing: list[UUID]
    stray: list[UUID]


def inspect(pool: Pool, store: VectorStore, index: Index) -> TreeReport | None:
    """Compare the summaries of an index with their namespace; None if the index has no tree. Raises `StoreError`.

    A vector's row is written before the vector, and a live row's vector before it becomes live. So rows from before the
    read of the store decide what is missing, and rows from after it decide what is a stray.
    """
    before = views.all_nodes(pool, index.id)
    if before is None:
        return None
    store.verify(index.namespace + TREE)
    stored = _read_stored(store, index)
    after = views.all_nodes(pool, index.id) or views.AllNodes(set(), set())
    return TreeReport(
        len(before.live), sorted((before.live & after.live) - stored), sorted(stored - before.known - after.known)
    )


def repair(pool: Pool, store: VectorStore, index: Index, report: TreeReport) -> None:
    """Delete strays, and have the next build write missing vectors, whose texts are cached. Raises `StoreError`."""
    for start in range(0, len(report.stray), PAGE):
        batch = report.stray[start : start + PAGE]
        store.write(index.namespace + TREE, index.settings.embedder.dimensions, deletes=batch)
    if report.missing:
        views.rewrite(pool, index.id, report.missing)


def _read_stored(store: VectorStore, index: Index) -> set[UUID]:
    stored: set[UUID] = set()
    after: UUID | None = None
    while page := store.ids(index.namespace + TREE, after, PAGE):
        stored.update(page)
        after = page[-1]
    return stored
