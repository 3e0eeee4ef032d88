"""A cache of the rows of chunks that searches found before. Each search reads versions to find changed rows."""

from __future__ import annotations

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


class FoundRows(NamedTuple):
    """The live rows among some ids, and the version of each."""

    rows: Mapping[str, HitRow]
    versions: Mapping[str, str]


class LiveRows:
    """A cache of rows that evicts the oldest first. Thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._rows: OrderedDict[str, HitRow] = OrderedDict()
        self._bytes = 0

    def limit(self, max_bytes: int) -> None:
        """Limit the cache to this many bytes from now on."""
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    def get(self, pool: Pool, index_id: UUID, ids: Sequence[str]) -> FoundRows:
        """Return the current rows. Reads all rows at once if too few are known."""
        known = {id_: row for id_ in ids if (row := self._rows.get(id_)) is not None}
        if len(known) < KNOWN_SHARE * len(ids):
            rows = self._keep(found_chunks.hits(pool, index_id, ids))
            return FoundRows(rows, {id_: row.version for id_, row in rows.items()})
        if len(known) == len(ids):
            versions = found_chunks.versions(pool, index_id, ids)
            if all(known[id_].version == version for id_, version in versions.items()):
                return FoundRows({id_: known[id_] for id_ in versions}, versions)
        kept = [known[id_].version if id_ in known else "" for id_ in ids]
        versions, newer = found_chunks.newer_hits(pool, index_id, ids, kept)
        self._keep(newer)
        return FoundRows({id_: newer.get(id_) or known[id_] for id_ in versions}, versions)

    def _keep(self, rows: dict[str, HitRow]) -> dict[str, HitRow]:
        with self._lock:
            for id_, row in rows.items():
                self._forget(id_)
                self._rows[id_] = row
                self._bytes += _size(row)
            self._shrink()
        return rows

    def _shrink(self) -> None:
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._rows)))

    def _forget(self, id_: str) -> None:
        before = self._rows.pop(id_, None)
        self._bytes -= _size(before) if before is not None else 0


def _size(row: HitRow) -> int:
    metadata = len(str(row.metadata)) if row.metadata else 0
    return ROW_BYTES + len(row.chunk_text) + len(row.read_text or "") + len(row.context) + metadata


_process_rows = LiveRows()

#: Returns the current rows, and their versions.
live_rows = _process_rows.get
#: Limits the rows that this process caches.
limit_rows = _process_rows.limit
