"""What every query asks Postgres for and what hardly ever changes: kept for a moment, by each process for itself."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar
from uuid import UUID

from cachetools import TTLCache

from worker.state.access import keys
from worker.state.index import tools
from worker.state.index.tools import Index
from worker.state.postgres import Pool

#: Seconds after which a process sees what another one changed: a key revoked, a tool deleted or moved to its new index.
SECONDS = 0.25
#: Entries kept, at most.
ENTRIES = 10_000

Key = TypeVar("Key")
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Values looked up lately. What is not there is looked for again each time. Thread-safe."""

    def __init__(self, read: Callable[[Key], Value | None], seconds: float = SECONDS) -> None:
        self._read = read
        self._lock = Lock()
        self._values: TTLCache[Key, Value] = TTLCache(ENTRIES, seconds)
        self._forgotten = 0

    def kept(self, key: Key) -> Value | None:
        """The value if it is kept; nothing is asked, and nobody waits."""
        with self._lock:
            return self._values.get(key)

    def get(self, key: Key) -> Value | None:
        """The value, at most `seconds` old."""
        with self._lock:
            kept, forgotten = self._values.get(key), self._forgotten
        return self._look(key, forgotten) if kept is None else kept

    def anew(self, key: Key) -> Value | None:
        """The value as it is now."""
        with self._lock:
            forgotten = self._forgotten
        return self._look(key, forgotten)

    def forget(self) -> None:
        """Look everything up again, what is being looked up at this moment too."""
        with self._lock:
            self._values.clear()
            self._forgotten += 1

    def _look(self, key: Key, forgotten: int) -> Value | None:
        value = self._read(key)
        with self._lock:
            if value is not None and forgotten == self._forgotten:
                self._values[key] = value
        return value


class Known:
    """What one process knows: the index of each tool, by its id, and the project of each API key, by its hash."""

    def __init__(self, pool: Callable[[], Pool]) -> None:
        self.indexes: Kept[UUID, Index] = Kept(lambda tool_id: tools.index_of_tool(pool(), tool_id))
        self.projects: Kept[bytes, str] = Kept(lambda key_hash: keys.project_of(pool(), key_hash))

    def forget(self) -> None:
        """Called by whoever changes tools or keys in this process, once that is committed."""
        self.indexes.forget()
        self.projects.forget()
