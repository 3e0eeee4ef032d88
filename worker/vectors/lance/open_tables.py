"""What a process that searches keeps open of LanceDB: a session of its own for each table, closed with it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import lancedb

from worker.vectors.lance.vector_cache import State

#: Tables that are kept open; each holds some two files.
OPEN_TABLES = 64
#: Bytes that a process keeps of all tables, and of one table's indexes and of what else it read of it. LanceDB's own
#: bounds are 7 GB together.
ALL_BYTES, INDEX_BYTES, METADATA_BYTES = 640 * 1024**2, 512 * 1024**2, 128 * 1024**2


@dataclass(frozen=True, slots=True)
class Opened:
    """A table as it was when it was opened, whatever is written meanwhile; one that does not rest has no `state`."""

    table: Any
    columns: frozenset[str]
    state: State


@dataclass(slots=True)
class Space:
    """A table with what LanceDB keeps of it: what it read, and the open files of its indexes.

    LanceDB keeps those of deleted indexes too, until its bounds of bytes are reached. So the whole of it is closed once
    indexes are made anew, which `indexes` tells. `rested`: the table as it was opened while it rested, and its state.
    """

    path: Path
    indexes: State
    session: Any
    connection: Any
    rested: tuple[State, Opened] | None = None


class Spaces:
    """The tables used last. Threads may share it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._open: OrderedDict[str, Space] = OrderedDict()

    def get(self, namespace: str) -> Space | None:
        """Return what is open of a table, unless its indexes were made anew since."""
        indexes = _indexes(self._path(namespace))
        with self._lock:
            space = self._open.get(namespace)
            if space is None or space.indexes != indexes:
                return None
            self._open.move_to_end(namespace)
            return space

    async def connect(self, namespace: str) -> Space:
        """Open a session for a table, which may be missing."""
        path = self._path(namespace)
        indexes = _indexes(path)
        session = lancedb.Session(INDEX_BYTES, METADATA_BYTES)
        return Space(path, indexes, session, await lancedb.connect_async(self._directory, session=session))

    def put(self, namespace: str, space: Space) -> Space:
        """Keep what was opened, and close what is gone or too much."""
        with self._lock:
            self._open[namespace] = space
            self._open.move_to_end(namespace)
            for name in [name for name, other in self._open.items() if not other.path.exists()]:
                del self._open[name]
            while len(self._open) > 1 and self._are_too_many():
                self._open.popitem(last=False)
        return space

    def _are_too_many(self) -> bool:
        held = sum(space.session.size_bytes for space in self._open.values())
        return len(self._open) > OPEN_TABLES or held > ALL_BYTES

    def _path(self, namespace: str) -> Path:
        return self._directory / f"{namespace}.lance"


def _indexes(path: Path) -> State:
    """Tells when indexes of a table were made or deleted last; None where there is none."""
    try:
        made = (path / "_indices").stat()
    except FileNotFoundError:
        return None
    return made.st_ino, made.st_mtime_ns
