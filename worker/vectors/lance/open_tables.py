"""LanceDB tables that a searching process keeps open. Each has its own session, which is closed with it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import lancedb

from worker.vectors.lance.vector_cache import State

#: Tables that are kept open; each keeps about two files open.
OPEN_TABLES = 64
#: Cache bytes of a process over all tables. LanceDB's own limits add up to 7 GB.
ALL_BYTES = 640 * 1024**2
#: Cache bytes of one table for its indexes.
INDEX_BYTES = 512 * 1024**2
#: Cache bytes of one table for other data.
METADATA_BYTES = 128 * 1024**2


@dataclass(frozen=True, slots=True)
class Opened:
    """A table as it was when it was opened, whatever is written since. `state` is None if it is not at rest."""

    table: Any
    columns: frozenset[str]
    state: State


@dataclass(slots=True)
class Space:
    """A table with its LanceDB caches: the data that was read, and the open files of its indexes.

    LanceDB also keeps files of deleted indexes open until its caches are full. So the whole session is closed once
    `indexes` shows that indexes were rebuilt. `rested` is the table as opened while at rest, with its state.
    """

    path: Path
    indexes: State
    session: Any
    connection: Any
    rested: tuple[State, Opened] | None = None


class Spaces:
    """The most recently used tables. Threads may share it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._open: OrderedDict[str, Space] = OrderedDict()

    def get(self, namespace: str) -> Space | None:
        """Return the open session of a table, unless its indexes were rebuilt since."""
        indexes = _indexes(self._path(namespace))
        with self._lock:
            space = self._open.get(namespace)
            if space is None or space.indexes != indexes:
                return None
            self._open.move_to_end(namespace)
            return space

    async def connect(self, namespace: str) -> Space:
        """Open a session for a table, which need not exist."""
        path = self._path(namespace)
        indexes = _indexes(path)
        session = lancedb.Session(INDEX_BYTES, METADATA_BYTES)
        return Space(path, indexes, session, await lancedb.connect_async(self._directory, session=session))

    def put(self, namespace: str, space: Space) -> Space:
        """Keep an open table; close tables that were deleted or that exceed the limits."""
        with self._lock:
            self._open[namespace] = space
            self._open.move_to_end(namespace)
            for name in [name for name, other in self._open.items() if not other.path.exists()]:
                del self._open[name]
            while len(self._open) > 1 and self._are_too_many():
                self._open.popitem(last=False)
        return space

    def _are_too_many(self) -> bool:
        cached_bytes = sum(space.session.size_bytes for space in self._open.values())
        return len(self._open) > OPEN_TABLES or cached_bytes > ALL_BYTES

    def _path(self, namespace: str) -> Path:
        return self._directory / f"{namespace}.lance"


def _indexes(path: Path) -> State:
    """Identifies when indexes of a table were last created or deleted; None if it has no indexes."""
    try:
        info = (path / "_indices").stat()
    except FileNotFoundError:
        return None
    return info.st_ino, info.st_mtime_ns
