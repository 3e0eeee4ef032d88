"""LanceDB tables that a searching process keeps open. Each has its own session, which is closed with it."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import lancedb

from worker.machine.handles import Identity, identity, identity_of
from worker.vectors.lance import word_search
from worker.vectors.lance.vector_cache import State

#: Tables that are kept open; each keeps about three files open.
OPEN_TABLES = 64
#: Maximum number of deleted index directories whose files a table may keep open.
GONE_SEGMENTS = 12
#: Cache bytes of a process over all tables. LanceDB's own limits add up to 7 GB.
ALL_BYTES = 160 * 1024**2
#: Shares of the cache for the indexes of one table and for its other data, each in both of its sessions.
INDEX_SHARE, METADATA_SHARE = 0.4, 0.1


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as it was when it was opened, regardless of later writes: for LanceDB, and as a dataset of Lance."""

    table: Any
    dataset: Any
    columns: frozenset[str]
    version: int


@dataclass(slots=True, weakref_slot=True)
class OpenTable:
    """A table with its LanceDB caches: the data that was read, and the open files of its indexes.

    LanceDB also keeps files of deleted indexes open until its caches are full. So the whole session is closed once many
    of the directories in `segments` are gone. `number` stays the same until the table is created again, which its
    directory's `identity` tells. `rested` is the table as it was opened while at rest, with the moment of its last
    commit. Lance itself, which searches words, has a separate session.
    """

    path: Path
    number: int
    identity: Identity | None
    segments: set[str]
    session: Any
    word_session: Any
    connection: Any
    rested: tuple[State, TableSnapshot] | None = None


class OpenTables:
    """The most recently used tables. Threads may share it."""

    def __init__(self, directory: Path, all_bytes: int = ALL_BYTES) -> None:
        self._directory = directory
        self._all_bytes = all_bytes
        self._lock = Lock()
        self._open: OrderedDict[str, OpenTable] = OrderedDict()
        self._numbers = count()

    def latest(self, namespace: str) -> OpenTable | None:
        """Return the open session of a table, even if the table has changed since."""
        with self._lock:
            space = self._open.get(namespace)
            if space is not None:
                self._open.move_to_end(namespace)
            return space

    def get(self, namespace: str) -> OpenTable | None:
        """Return the open session of a table, unless many of its index files were deleted since."""
        path = self._path(namespace)
        segments, present = _segments(path), _identity(path)
        with self._lock:
            space = self._open.get(namespace)
            if space is None or present is None or space.identity != present:
                return None
            space.segments |= segments
            if len(space.segments - segments) > GONE_SEGMENTS:
                return None
            self._open.move_to_end(namespace)
            return space

    async def connect(self, namespace: str) -> OpenTable:
        """Open a session for a table, which need not exist."""
        shares = int(self._all_bytes * INDEX_SHARE), int(self._all_bytes * METADATA_SHARE)
        session, word_session = lancedb.Session(*shares), word_search.new_session(*shares)
        connection = await lancedb.connect_async(self._directory, session=session)
        path = self._path(namespace)
        held = _hold(path)
        present = None if held is None else identity(held)
        with self._lock:
            before = self._open.get(namespace)
            is_same = before is not None and present is not None and before.identity == present
            number = before.number if before is not None and is_same else next(self._numbers)
        space = OpenTable(path, number, present, _segments(path), session, word_session, connection)
        if held is not None:
            # until then no other directory has this identity
            weakref.finalize(space, os.close, held)
        return space

    def put(self, namespace: str, space: OpenTable) -> OpenTable:
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
        cached_bytes = sum(space.session.size_bytes + space.word_session.size_bytes() for space in self._open.values())
        return len(self._open) > OPEN_TABLES or cached_bytes > self._all_bytes

    def _path(self, namespace: str) -> Path:
        return self._directory / f"{namespace}.lance"


def _segments(path: Path) -> set[str]:
    """Return the names of the directories of a table's indexes; none if it does not exist."""
    try:
        return {segment.name for segment in os.scandir(path / "_indices")}
    except FileNotFoundError:
        return set()


def _identity(path: Path) -> Identity | None:
    """Return the identity of a table's directory; None if it does not exist."""
    try:
        return identity_of(path.stat())
    except FileNotFoundError:
        return None


def _hold(path: Path) -> int | None:
    """Open a table's directory, if it exists."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return None
