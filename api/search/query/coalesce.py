"""Coalesces concurrent embedding requests into one: each request costs as much as a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from threading import Lock
from typing import Generic, TypeVar

from schemas.errors import EmbeddingRefused

Key = TypeVar("Key")
Value = TypeVar("Value")

#: Seconds that a caller waits for the request in flight, whose answer may take long, before another is sent.
PATIENCE = 0.01

_Wanted = tuple[Mapping[str, Key], "Future[Mapping[str, Value]]"]


class Gathering(Generic[Key, Value]):
    """Sends texts at once; those that arrive during a request go together in the next. Thread-safe.

    `send` takes texts with their keys and returns their values. It runs in threads of `pool`.
    """

    def __init__(self, send: Callable[[Mapping[str, Key]], Mapping[str, Value]], pool: Executor) -> None:
        self._send = send
        self._pool = pool
        self._lock = Lock()
        self._waiting: list[_Wanted[Key, Value]] = []
        self._working = 0

    def get(self, texts: Mapping[str, Key], seconds: float) -> Mapping[str, Value]:
        """The values of the texts, possibly with others. Raises what `send` raises, and `TimeoutError`."""
        future: Future[Mapping[str, Value]] = Future()
        with self._lock:
            self._waiting.append((texts, future))
            idle = not self._working
            self._working += idle
        if idle:
            self._pool.submit(self._work)
        try:
            return self._in_time(future, seconds)
        finally:
            future.cancel()  # no effect once sent; otherwise it need not be sent

    def _in_time(self, future: Future[Mapping[str, Value]], seconds: float) -> Mapping[str, Value]:
        try:
            return future.result(PATIENCE)
        except TimeoutError:
            if future.running() or future.done():
                return future.result(seconds - PATIENCE)
        with self._lock:
            self._working += 1
        self._pool.submit(self._work)
        return future.result(seconds - PATIENCE)

    def _work(self) -> None:
        while wanted := self._next():
            self._answer(wanted)

    def _next(self) -> list[_Wanted[Key, Value]]:
        """Take all waiting requests that are not cancelled. If none is left, this thread counts as idle."""
        with self._lock:
            wanted = [each for each in self._waiting if each[1].set_running_or_notify_cancel()]
            self._waiting.clear()
            self._working -= not wanted
        return wanted

    def _answer(self, wanted: Sequence[_Wanted[Key, Value]]) -> None:
        try:
            found = self._send({text: key for texts, _ in wanted for text, key in texts.items()})
        except EmbeddingRefused as refusal:
            if len(wanted) == 1:
                wanted[0][1].set_exception(refusal)
            else:  # only one of them caused the refusal: retry each alone
                for each in wanted:
                    self._answer([each])
        except Exception as error:  # noqa: BLE001 - any error belongs to the waiting callers
            for _, future in wanted:
                future.set_exception(error)
        else:
            for _, future in wanted:
                future.set_result(found)
