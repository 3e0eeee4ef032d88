"""Coalesces concurrent embedding requests into one: each request costs as much as a search.

The texts may be of different projects. So a text that its provider refuses, or fails at, must cost no other its vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from threading import Lock
from typing import Generic, Protocol, TypeVar

from schemas.errors import EmbeddingRefused, EmbeddingUnavailable
from worker.embed.retry import has_failed

Key = TypeVar("Key")
Value = TypeVar("Value")
_Given_contra = TypeVar("_Given_contra", contravariant=True)
_Returned_co = TypeVar("_Returned_co", covariant=True)

#: The texts that a caller asks for, with their keys, and the future on which it waits.
_Pending = tuple[Mapping[str, Key], "Future[Mapping[str, Value]]"]


class Send(Protocol[_Given_contra, _Returned_co]):
    """Embeds texts with their keys, and returns their values."""

    def __call__(self, texts: Mapping[str, _Given_contra], *, is_shared: bool) -> Mapping[str, _Returned_co]:
        """If the request `is_shared` by several callers, it need not find out which text is at fault."""
        ...


class Coalescer(Generic[Key, Value]):
    """Sends texts at once; those that arrive during a request go together in the next. Thread-safe.

    `send` runs in threads of `pool`. A caller waits for the request in flight, whose answer may take long, for at most
    `queued_seconds` before another is sent. After an error that one of several callers may have caused, the texts of
    each are sent once more, at the same time and alone.
    """

    def __init__(self, send: Send[Key, Value], pool: Executor, queued_seconds: float) -> None:
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
        texts = {text: key for texts, _ in pending for text, key in texts.items()}
        try:
            values = self._send(texts, is_shared=len(pending) > 1)
        except Exception as error:  # noqa: BLE001 - any error belongs to the waiting callers
            if len(pending) > 1 and _may_be_of_one(error):
                for request in pending:
                    self._pool.submit(self._answer, [request])
                return
            for _, future in pending:
                future.set_exception(error)
        else:
            for _, future in pending:
                future.set_result(values)


def _may_be_of_one(error: Exception) -> bool:
    """Whether one text may have caused an error, so that the others are answered without it."""
    return isinstance(error, EmbeddingRefused) or (isinstance(error, EmbeddingUnavailable) and has_failed(error))
