"""Reads tables into memory while searches go on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import structlog

log = structlog.get_logger()


class BackgroundReads:
    """A thread that reads one table at a time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reading: set[str] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tables")

    def begin(self, namespace: str, read: Callable[[], object]) -> None:
        """Let the thread call `read`, unless a read of this namespace has begun and not ended."""
        with self._lock:
            if namespace in self._reading:
                return
            self._reading.add(namespace)
        self._thread.submit(self._read, namespace, read)

    def wait(self) -> None:
        """Wait until all reads have ended that were begun."""
        self._thread.submit(int).result()

    def _read(self, namespace: str, read: Callable[[], object]) -> None:
        try:
            read()
        except Exception:  # such as a file that a compaction deleted: LanceDB searches the table itself
            log.warning("a LanceDB table could not be read into memory", namespace=namespace, exc_info=True)
        finally:
            with self._lock:
                self._reading.discard(namespace)
