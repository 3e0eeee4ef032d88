"""Deletes vectors without a row from the stores, and repeats each delete once no late write can follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog

from schemas.errors import FoldexError
from worker.resources import Resources
from worker.state.index import chunks, delete_queue, namespaces, tools
from worker.state.index.chunks import ChunkTombstones
from worker.state.index.tools import BuriedIndex
from worker.stores import STORES
from worker.upkeep.isolation import isolate_failure

#: Maximum seconds that one sweep spends on deletes in one store, and again on purges; a single request may take longer.
SECONDS_PER_STORE = 1.5
#: Maximum number of indexes that one sweep handles per store.
MAX_INDEXES = 100
#: Maximum number of vectors that one sweep deletes per index.
MAX_TOMBSTONES = 1000

T = TypeVar("T")

log = structlog.get_logger()


def delete_vectors(resources: Resources, *, indexes: int = MAX_INDEXES, each: int = MAX_TOMBSTONES) -> int:
    """Repeat unconfirmed deletes, and repeat every delete once no late write can follow."""

    def delete(store: str, index: ChunkTombstones) -> bool:
        resources.store(store, "store").write(index.namespace, index.dimensions, deletes=index.ids)
        chunks.confirm_deleted(resources.pool, index.ids)
        chunks.purge_tombstones(resources.pool, index.final)
        return len(index.ids) < each

    return sum(
        _look_after(resources, index.index_id, index.namespace, partial(delete, store, index))
        for store in _stores(resources)
        for index in _in_time(chunks.due_tombstones(resources.pool, store, indexes=indexes, each=each))
    )


def purge_indexes(resources: Resources, *, limit: int = MAX_INDEXES) -> int:
    """Purge deleted indexes: vectors first, rows last.

    The index's own row keeps its namespace name until late writes are impossible.
    """

    def purge(store: str, index: BuriedIndex) -> bool:
        opened = resources.store(store, index.keyword_index)
        for namespace in [*index.derived, index.namespace]:
            opened.drop(namespace)
        return tools.purge(resources.pool, index.id, final=index.final)

    return sum(
        _look_after(resources, index.id, index.namespace, partial(purge, store, index))
        for store in _stores(resources)
        for index in _in_time(tools.list_buried(resources.pool, store, limit))
    )


def _stores(resources: Resources) -> list[str]:
    """Yield the stores that this process sees. Deletes in other stores wait for the sweep of another process."""
    refused = resources.refused()
    return [name for name in STORES if name not in refused]


def _in_time(due: Iterable[T]) -> Iterator[T]:
    """Yield the first item, and more until the time for one store is up."""
    deadline = time.monotonic() + SECONDS_PER_STORE
    for index in due:
        yield index
        if time.monotonic() > deadline:
            return


def _look_after(resources: Resources, index_id: UUID, namespace: str, work: Callable[[], bool]) -> bool:
    """Run the upkeep of one index, whose failure affects no other. Returns False if it failed.

    `work` returns whether it did everything due; the rest waits for its next turn.
    """
    event, record = "vectors not deleted yet", delete_queue.postpone
    with isolate_failure(event, namespace=namespace):
        try:
            record = delete_queue.note_done if work() else delete_queue.requeue
        except FoldexError as error:
            log.warning(event, namespace=namespace, code=error.code, reason=error.message)
    record(resources.pool, index_id)
    return record is not delete_queue.postpone


def check_names(resources: Resources) -> int:
    """Drop namespaces of deleted indexes that a late writer created again. No other index ever has such a name."""
    due = namespaces.take_due(resources.pool, _stores(resources))
    silent_stores: set[str] = set()
    for retired in due:
        if retired.vector_store in silent_stores:
            continue
        try:
            came_back = resources.store(retired.vector_store, retired.keyword_index).drop(retired.name)
        except FoldexError as error:
            silent_stores.add(retired.vector_store)
            log.warning("deleted namespace not checked", namespace=retired.name, code=error.code, reason=error.message)
            continue
        if came_back:
            log.warning("a late writer recreated a deleted namespace; dropping it", namespace=retired.name)
        namespaces.note_checked(resources.pool, retired.name)
    return len(due)
