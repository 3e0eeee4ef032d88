"""A vector store in a directory. Each call first verifies that it is the right directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from uuid import UUID

from worker.vectors import Leg, Patch, Ranked, StoredAttributes, Value, Vector, VectorRow, VectorStore


class DirectoryStore:
    """Runs every call within `using`, which raises `VectorsElsewhere` if the directory is not the store's."""

    def __init__(self, store: VectorStore, using: Callable[[], AbstractContextManager[None]]) -> None:
        self.store, self._using = store, using

    @property
    def has_keywords(self) -> bool:
        """See `VectorStore`."""
        return self.store.has_keywords

    @property
    def is_here(self) -> bool:
        """See `VectorStore`."""
        return self.store.is_here

    def write(
        self,
        namespace: str,
        dimensions: int,
        upserts: Sequence[VectorRow] = (),
        patches: Sequence[Patch] = (),
        deletes: Sequence[UUID] = (),
    ) -> None:
        """See `VectorStore`."""
        with self._using():
            self.store.write(namespace, dimensions, upserts, patches, deletes)

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[Ranked]:
        """See `VectorStore`."""
        with self._using():
            return self.store.search(namespace, legs)

    def ids(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        """See `VectorStore`."""
        with self._using():
            return self.store.ids(namespace, after, limit)

    def attributes(self, namespace: str, after: UUID | None, limit: int) -> dict[UUID, StoredAttributes]:
        """See `VectorStore`."""
        with self._using():
            return self.store.attributes(namespace, after, limit)

    def stored(self, namespace: str, attributes: Mapping[str, Value]) -> StoredAttributes:
        """See `VectorStore`."""
        return self.store.stored(namespace, attributes)

    def vectors(self, namespace: str, ids: Sequence[UUID]) -> dict[UUID, Vector]:
        """See `VectorStore`."""
        with self._using():
            return self.store.vectors(namespace, ids)

    def drop(self, namespace: str) -> bool:
        """See `VectorStore`."""
        with self._using():
            return self.store.drop(namespace)

    def verify(self, namespace: str, most_bytes: int | None = None) -> None:
        """See `VectorStore`."""
        with self._using():
            self.store.verify(namespace, most_bytes)

    def optimize(self, namespace: str, *, writing: bool = False) -> None:
        """See `VectorStore`."""
        with self._using():
            self.store.optimize(namespace, writing=writing)
