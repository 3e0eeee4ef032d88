"""Texts that several callers want embedded at the same time, in one request: each costs as much as a search does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from threading import Lock
from typing import Generic, TypeVar

from schemas.errors import EmbeddingRefused

Key = TypeVar("Key")
Value = TypeVar("Value")

#: Seconds after which whoever waits for another request to end has one sent beside it: an answer may take far longer.
PATIENCE = 0.01

_Wanted = tuple[Mapping[str, Key], "Future[Mapping[str, Value]]"]


class Gathering(Generic[Key, Value]):
    """Sends texts at once; those that come while a request is under way go together in the next. Thread-safe.

    `send` takes texts, with whatever it needs to know of each, and gives their values; it runs in threads of `pool`.
    """

    def __init__(self, send: Callable[[Mapping[str, Key]], Mapping[str, Value]], pool: Executor) -> None:
        self._send = send
        self._pool = pool
        self._lock = Lock()
        self._waiting: list[_Wanted[Key, Value]] = []
        self._working = 0

    def get(self, texts: Mapping[str, Key], seconds: float) -> Mapping[str, Value]:
        """The values of texts, perhaps among others. Raises what `send` raises for them, and `TimeoutError`."""
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
            future.cancel()  # where it was not sent, nobody needs it to be

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
        """All that wait, but for those who wait no longer; with nothing left this thread's work ends."""
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
            else:  # one of them is to blame, and the others need not know
                for each in wanted:
                    self._answer([each])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is theirs who wait for it
            for _, future in wanted:
                future.set_exception(error)
        else:
            for _, future in wanted:
                future.set_result(found)
