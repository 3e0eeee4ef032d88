"""A cache of the rows of chunks that searches found before.

A search reads versions to find changed rows, unless the state of its index says that no row has changed.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from worker.machine.memory.api_memory import ApiMemory
from worker.state.pool import Pool
from worker.state.search import found_chunks
from worker.state.search.found_chunks import HitRow

#: Maximum bytes of the texts and other values that a process keeps, unless `API_MEMORY_MB` sets another number.
MAX_BYTES = ApiMemory().found_rows
#: Minimum share of known rows. Below it, reading versions first costs more than it saves.
KNOWN_SHARE = 0.75
#: Assumed bytes of a row without its text.
ROW_BYTES = 2_000
#: Seconds after which a row is looked at again even if its index is in the same state: a repair needs no run.
AT_REST_SECONDS = 300


class FoundRows(NamedTuple):
    """The live rows among some ids, and the version of each."""

    rows: Mapping[str, HitRow]
    versions: Mapping[str, str]


class _Kept(NamedTuple):
    """A row, the state of its index in which it was current, and until when that is taken for granted."""

    row: HitRow
    state: str
    until: float


class LiveRows:
    """A cache of rows that evicts the oldest first. Thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def limit(self, max_bytes: int) -> None:
        """Limit the cache to this many bytes from now on."""
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    def get(self, pool: Pool, index_id: UUID, ids: Sequence[str], state: str = "") -> FoundRows:
        """Return the current rows.

        As long as an index has the same `state`, none of its rows changes; "": a row may change at any moment. Read it
        before the call.
        """
        known = {id_: kept for id_ in ids if (kept := self._kept.get(id_)) is not None}
        now = time.monotonic()
        rows = {id_: kept.row for id_, kept in known.items() if state and kept.state == state and kept.until > now}
        others = [id_ for id_ in ids if id_ not in rows] if rows else ids
        if others:
            current = _current(pool, index_id, others, {id_: kept.row for id_, kept in known.items()})
            self._keep({id_: _Kept(row, state, now + AT_REST_SECONDS) for id_, row in current.items()})
            rows |= current
        return FoundRows(rows, {id_: row.version for id_, row in rows.items()})

    def _keep(self, current: Mapping[str, _Kept]) -> None:
        with self._lock:
            for id_, kept in current.items():
                before = self._kept.get(id_)
                if before is not None and before.row is kept.row:
                    self._kept[id_] = kept
                    continue
                self._forget(id_)
                self._kept[id_] = kept
                self._bytes += _size(kept.row)
            self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._kept)))

    def _forget(self, id_: str) -> None:
        before = self._kept.pop(id_, None)
        self._bytes -= _size(before.row) if before is not None else 0


def _current(pool: Pool, index_id: UUID, ids: Sequence[str], known: Mapping[str, HitRow]) -> dict[str, HitRow]:
    """Read the current rows. Reads all of them if too few are known."""
    versions = {id_: known[id_].version for id_ in ids if id_ in known}
    if len(versions) < KNOWN_SHARE * len(ids):
        return found_chunks.hits(pool, index_id, ids)
    if len(versions) == len(ids):
        present = found_chunks.versions(pool, index_id, ids)
        if all(versions[id_] == version for id_, version in present.items()):
            return {id_: known[id_] for id_ in present}
    present, newer = found_chunks.newer_hits(pool, index_id, ids, [versions.get(id_, "") for id_ in ids])
    return {id_: newer.get(id_) or known[id_] for id_ in present}


def _size(row: HitRow) -> int:
    metadata = len(str(row.metadata)) if row.metadata else 0
    return ROW_BYTES + len(row.chunk_text) + len(row.read_text or "") + len(row.context) + metadata


_process_rows = LiveRows()

#: Returns the current rows, and their versions.
live_rows = _process_rows.get
#: Limits the rows that this process caches.
limit_rows = _process_rows.limit
