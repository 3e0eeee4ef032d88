"""Reads tables into memory during searches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import Lock, Thread

import structlog

log = structlog.get_logger()


class BackgroundReads:
    """A thread that reads one table at a time. It drops queued reads when the process ends. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: Reads that have begun and not ended, by namespace. The thread runs as long as there are any.
        self._reads: dict[str, Callable[[], object]] = {}
        self._thread: Thread | None = None

    def begin(self, namespace: str, read: Callable[[], object]) -> None:
        """Have the thread call `read`, unless a read of this namespace is in progress or queued."""
        with self._lock:
            if namespace in self._reads:
                return
            if not self._reads:
                self._thread = Thread(target=self._read_all, args=(namespace,), name="tables")
                self._thread.start()
            self._reads[namespace] = read

    def wait(self) -> None:
        """Wait until all reads begun so far have ended."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _read_all(self, namespace: str | None) -> None:
        # the interpreter waits for this thread after the main one has ended
        while namespace is not None and threading.main_thread().is_alive():
            with self._lock:
                read = self._reads[namespace]
            try:
                read()
            except BaseException:
                # A compaction may have deleted the file, for example: then LanceDB searches the table itself. A panic
                # does not derive from Exception.
                log.warning("a LanceDB table could not be read into memory", namespace=namespace, exc_info=True)
            with self._lock:
                del self._reads[namespace]
                namespace = next(iter(self._reads), None)
