"""A helper that serves many requests, and is replaced once it dies or uses too much memory."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Mapping
from threading import Lock
from typing import Any
from weakref import WeakSet

import orjson

from schemas.errors import FileError, FileTooSlow
from schemas.reason import Reason
from worker.sandbox import process
from worker.sandbox.process import DiedError, HelperProcess, LateError
from worker.sandbox.protocol import Answer, Bounds

ATTEMPTS = 3
#: Exit codes of a helper that the system ended because its processor time was up.
_TIMEOUT_EXIT_CODES = (-signal.SIGXCPU, -signal.SIGPROF)
#: Message for a file whose library ended the helper on purpose. Another attempt would end in the same way.
_ABORTED = "The file is damaged (its library gives up on it); repair or convert it."
_ENDLESS = "Reading the file does not finish; exclude it or convert it."


class Helper:
    """Answers requests, one at a time, in a process that starts with the first one. Thread-safe."""

    def __init__(self, niceness: int = 0) -> None:
        self._niceness = niceness
        self._lock = Lock()
        self.running: HelperProcess | None = None
        _helpers.add(self)

    def ask(self, head: Mapping[str, Any], data: bytes, bounds: Bounds) -> Answer:
        """Return the answer to a request. Raises `FileError`: the helper's error, or `too_large` or `crashed`."""
        request = process.packed(orjson.dumps(head), data)
        with self._lock:
            try:
                for _ in range(ATTEMPTS):
                    answer = self._attempt(request, bounds)
                    if answer is not None:
                        return answer
            finally:
                self._clear()
        raise FileError(Reason.CRASHED)

    def ask_keeper(self, container: str, head: Mapping[str, Any], bounds: Bounds) -> Answer | None:
        """Return the answer to a request about an open container; None if it was closed."""
        request = process.packed(orjson.dumps(head), b"")
        with self._lock:
            try:
                answer = self._attempt(request, bounds) if self.keeps(container) else None
                return None if answer is None or "missing" in answer.head else answer
            finally:
                self._clear()

    def keeps(self, container: str) -> bool:
        """Return whether the running process has a container open."""
        running = self.running
        return running is not None and container in running.kept

    def stop(self, *, wait: bool = True) -> None:
        """End the process; the next request starts another. Without `wait`, a process in use by a thread stays."""
        if self._lock.acquire(blocking=wait):
            try:
                self._end()
            finally:
                self._lock.release()

    def forget(self) -> None:
        """After a fork the process belongs to the parent; this process starts its own."""
        self._lock = Lock()
        if self.running:
            self.running.leave()
        self.running = None

    def _attempt(self, request: tuple[bytes, ...], bounds: Bounds) -> Answer | None:
        """Return the helper's answer; None if another attempt may succeed. Raises `too_large` if none will."""
        running = self._ready(bounds)
        fresh, running.used = not running.used, True
        try:
            answer = running.ask(request, bounds)
        except LateError:
            self._end()
            if not fresh:
                return None
            raise FileTooSlow(Reason.CRASHED, _ENDLESS) from None
        except DiedError:
            self._raise_if_guilty(*self._end(), running, bounds, fresh=fresh)
            return None
        except BaseException:
            # the answer to this file would be mistaken for the next file's
            self._end()
            raise
        if isinstance(kept := answer.head.get("kept"), list):
            running.kept = frozenset(map(str, kept))
        if answer.head.get("last"):
            self._end()
        if "memory" in answer.head:
            _raise_if_too_large(bounds, fresh=fresh)
            return None
        if "reason" in answer.head:
            raise _failure(answer.head)
        return answer

    def _raise_if_guilty(self, code: int, peak: int, ended: HelperProcess, bounds: Bounds, *, fresh: bool) -> None:
        """Raise `FileError` if the helper ended because of this request, so that another attempt is useless."""
        if code in _TIMEOUT_EXIT_CODES:
            raise FileTooSlow(Reason.TOO_LARGE, bounds.slow) from None
        if peak > max(ended.inherited, bounds.memory_bytes // 2):
            _raise_if_too_large(bounds, fresh=fresh)
        if code == -signal.SIGABRT and fresh:
            raise FileError(Reason.PARSE_FAILED, _ABORTED) from None

    def _ready(self, bounds: Bounds) -> HelperProcess:
        """Return a running helper with the allowed amount of memory."""
        running = self.running
        if running and (running.process.poll() is not None or running.memory_bytes != bounds.memory_bytes):
            self._end()
        if self.running is None:
            self.running = process.start(bounds.memory_bytes, self._niceness)
        return self.running

    def _end(self) -> tuple[int, int]:
        running, self.running = self.running, None
        return running.end() if running else (0, 0)

    def _clear(self) -> None:
        """Remove a file's leftovers from the disk."""
        if self.running:
            self.running.clear()


def _raise_if_too_large(bounds: Bounds, *, fresh: bool) -> None:
    """Raise `FileError` (`too_large`), unless an earlier file may have used the memory."""
    if fresh:
        raise FileError(Reason.TOO_LARGE, bounds.large)


def _failure(head: Mapping[str, Any]) -> FileError:
    try:
        return FileError(Reason(head["reason"]), str(head["message"]))
    except (KeyError, ValueError):
        return FileError(Reason.CRASHED)


_helpers: WeakSet[Helper] = WeakSet()


def stop_all() -> None:
    """End the processes that no thread of this process uses."""
    for helper in list(_helpers):
        helper.stop(wait=False)


def _forget_all() -> None:
    for helper in list(_helpers):
        helper.forget()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(stop_all)
