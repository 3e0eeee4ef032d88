"""Coalesces concurrent embedding requests into one: each request costs as much as a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from threading import Lock
from typing import Generic, TypeVar

from schemas.errors import EmbeddingRefused

Key = TypeVar("Key")
Value = TypeVar("Value")

#: The texts that a caller asks for, with their keys, and the future on which it waits.
_Pending = tuple[Mapping[str, Key], "Future[Mapping[str, Value]]"]


class Coalescer(Generic[Key, Value]):
    """Sends texts at once; those that arrive during a request go together in the next. Thread-safe.

    `send` takes texts with their keys and returns their values. It runs in threads of `pool`. A caller waits for the
    request in flight, whose answer may take long, for at most `queued_seconds` before another is sent.
    """

    def __init__(
        self, send: Callable[[Mapping[str, Key]], Mapping[str, Value]], pool: Executor, queued_seconds: float
    ) -> None:
        self._send = send
        self._pool = pool
        self._queued_seconds = queued_seconds
        self._lock = Lock()
        self._waiting: list[_Pending[Key, Value]] = []
        self._working = 0

    def get(self, texts: Mapping[str, Key], seconds: float) -> Mapping[str, Value]:
        """The values of the texts, possibly with others. Raises what `send` raises, and `TimeoutError`."""
        return self.wait(self.begin(texts), seconds)

    def begin(self, texts: Mapping[str, Key]) -> Future[Mapping[str, Value]]:
        """Ask for the texts. The caller must pass the result to `wait`, or cancel it."""
        future: Future[Mapping[str, Value]] = Future()
        with self._lock:
            self._waiting.append((texts, future))
            is_idle = not self._working
            self._working += is_idle
        if is_idle:
            self._pool.submit(self._work)
        return future

    def wait(self, future: Future[Mapping[str, Value]], seconds: float) -> Mapping[str, Value]:
        """The values that `begin` asked for. Raises as `get`."""
        try:
            return self._result_in_time(future, seconds)
        finally:
            future.cancel()  # no effect once sent; otherwise it need not be sent

    def _result_in_time(self, future: Future[Mapping[str, Value]], seconds: float) -> Mapping[str, Value]:
        try:
            return future.result(self._queued_seconds)
        except TimeoutError:
            if future.running() or future.done():
                return future.result(seconds - self._queued_seconds)
        with self._lock:
            self._working += 1
        self._pool.submit(self._work)
        return future.result(seconds - self._queued_seconds)

    def _work(self) -> None:
        while pending := self._take_pending():
            self._answer(pending)

    def _take_pending(self) -> list[_Pending[Key, Value]]:
        """Take all waiting requests that are not cancelled. If none is left, this thread counts as idle."""
        with self._lock:
            pending = [request for request in self._waiting if request[1].set_running_or_notify_cancel()]
            self._waiting.clear()
            self._working -= not pending
        return pending

    def _answer(self, pending: Sequence[_Pending[Key, Value]]) -> None:
        try:
            values = self._send({text: key for texts, _ in pending for text, key in texts.items()})
        except EmbeddingRefused as refusal:
            if len(pending) == 1:
                pending[0][1].set_exception(refusal)
            else:  # only one of them caused the refusal: retry each alone
                for request in pending:
                    self._answer([request])
        except Exception as error:  # noqa: BLE001 - any error belongs to the waiting callers
            for _, future in pending:
                future.set_exception(error)
        else:
            for _, future in pending:
                future.set_result(values)
