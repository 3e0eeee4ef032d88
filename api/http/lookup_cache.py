"""Caches, per process and briefly, what every query reads from Postgres but rarely changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from threading import Lock
from typing import Generic, TypeVar
from uuid import UUID

import psycopg
from cachetools import LRUCache, TLRUCache

from schemas.errors import FoldexError
from worker.state.access import keys
from worker.state.access.keys import ValidKey
from worker.state.index import tools
from worker.state.index.tools import Index
from worker.state.pool import Pool

#: Seconds until a process sees changes by others: a key revoked or expired, a tool deleted or moved to its new index.
CACHE_SECONDS = 0.25
#: Maximum seconds for which a lookup is kept because it took long.
MAX_REST_SECONDS = 1.0
#: Maximum number of entries.
MAX_ENTRIES = 10_000

_NONE = None, 0

Key = TypeVar("Key")
Value = TypeVar("Value")


class LookupCache(Generic[Key, Value]):
    """A cache of recent lookups, with a total size of at most `entries`. Thread-safe.

    Each is kept for `seconds`, which its key may decide, or for `rest` times as long as it took if that is longer, up
    to `MAX_REST_SECONDS`. Missing values are not cached.
    """

    def __init__(
        self,
        read: Callable[[Key], Value | None],
        seconds: float | Callable[[Key], float] = CACHE_SECONDS,
        entries: int = MAX_ENTRIES,
        size: Callable[[Key, Value], int] = lambda _key, _value: 1,
        rest: float = 0.0,
    ) -> None:
        self._read = read
        self._lock = Lock()
        self._size = size
        self._seconds = seconds if callable(seconds) else lambda _key: seconds
        self._rest = rest
        #: Values with their sizes, and the seconds for which each is kept.
        self._values: TLRUCache[Key, tuple[Value, int, float]] = TLRUCache(entries, ends_at, getsizeof=itemgetter(1))
        self._forgotten = 0

    def cached(self, key: Key) -> Value | None:
        """The cached value or None, without a lookup."""
        with self._lock:
            return self._values.get(key, _NONE)[0]

    def get(self, key: Key, read: Callable[[], Value | None] | None = None) -> Value | None:
        """The value, from the cache or looked up; at most `seconds` old. `read` is the lookup of this call alone."""
        with self._lock:
            cached, forgotten = self._values.get(key, _NONE)[0], self._forgotten
        return self._look(key, forgotten, read) if cached is None else cached

    def fresh(self, key: Key) -> Value | None:
        """The value, always looked up."""
        with self._lock:
            forgotten = self._forgotten
        return self._look(key, forgotten)

    def forget(self) -> None:
        """Drop all entries, and do not cache lookups that are in progress."""
        with self._lock:
            self._values.clear()
            self._forgotten += 1

    def _look(self, key: Key, forgotten: int, read: Callable[[], Value | None] | None = None) -> Value | None:
        began = time.perf_counter()
        value = self._read(key) if read is None else read()
        seconds = max(self._seconds(key), min(MAX_REST_SECONDS, self._rest * (time.perf_counter() - began)))
        with self._lock:
            if value is None or forgotten != self._forgotten:
                return value
            size = self._size(key, value)
            if size <= self._values.maxsize:
                self._values[key] = value, size, seconds
        return value


def ends_at(_key: object, kept: tuple[object, int, float], now: float) -> float:
    """The end of an entry of a cache that is put there `now`."""
    return now + kept[2]


class LookupCaches:
    """The caches of one process: indexes by tool id, and keys by their hash."""

    def __init__(self, pool: Callable[[], Pool]) -> None:
        self._pool = pool
        self.indexes: LookupCache[UUID, Index] = LookupCache(lambda tool_id: tools.index_of_tool(pool(), tool_id))
        self.keys: LookupCache[bytes, ValidKey] = LookupCache(self._valid_key)
        #: The minute in which each key was last noted as used.
        self._noted: LRUCache[UUID, int] = LRUCache(MAX_ENTRIES)
        self._lock = Lock()

    def forget(self) -> None:
        """Drop all entries. Call this after committing a change to tools or keys."""
        self.indexes.forget()
        self.keys.forget()

    def _valid_key(self, key_hash: bytes) -> ValidKey | None:
        found = keys.valid(self._pool(), key_hash)
        if found is not None:
            self._note_use(found.id)
        return found

    def _note_use(self, key_id: UUID) -> None:
        """Note the use once a minute. All other lookups write nothing."""
        minute = int(time.time() // 60)
        with self._lock:
            if self._noted.get(key_id) == minute:
                return
            self._noted[key_id] = minute
        # a failed note, such as on a full disk, must not fail a call that only reads
        with suppress(psycopg.Error, FoldexError):
            keys.note_use(self._pool(), key_id)
