"""Decide when a provider may be asked: one budget for all workers, and back-off from a busy or failing provider.

- One ledger (`worker.embed.circuit`) counts requests and tokens per minute. While several projects ask, none gets more
  than its share. While Redis is away, each process keeps to an equal part of the rate.
- A `Retry-After` applies to the whole fleet. So does a 429 without one: for 1 s, doubled after each further 429.
- A process backs off by itself from 5xx, time-outs and lost connections. After several consecutive failures over all
  workers, the provider is blocked for up to a minute. Then one request at a time probes it until one succeeds.
- Each 429 halves the number of requests that a process has in flight; after some successes the number grows by one.
- No call waits here longer than `PATIENCE`. Beyond that the files go back, and the task waits instead of the worker.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar
from uuid import uuid4

import structlog
from redis import RedisError

from schemas.errors import EmbeddingError, EmbeddingUnavailable
from worker.embed import Vectors
from worker.embed.circuit import LONGEST_BLOCK, OPEN_AFTER, POLL, Alone, Leave, Ledger, Rate, Shared

T = TypeVar("T")

#: Seconds that a slice waits in place for one request, and that a user waits for a query.
PATIENCE, QUERY_PATIENCE = 5.0, 2.0
#: Seconds between two checks of the lease while waiting.
STEP = 0.25
#: Seconds of a process's first pause; each further failure doubles it.
FIRST_PAUSE = 0.5
#: Successes after which a process may have one more request in flight.
SUCCESSES = 8
#: Seconds for which queries trust the ledger's answer that nothing fails. Asking costs a notable part of a search.
CALM = 0.1
#: Seconds for which a Redis that did not answer is not asked again.
AWAY = 5.0
#: Maximum `Retry-After` in seconds, for a provider that says "tomorrow".
LONGEST_RETRY_AFTER = 600.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of time; tests replace it to avoid waiting."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


def unchecked() -> None:
    """A check that never raises."""


class Budget:
    """The budget of one model at one address, as a process sees it. Thread-safe; open it only after any fork."""

    def __init__(
        self,
        model: str,
        name: str,
        rate: Rate,
        *,
        redis_url: str,
        concurrency: int,
        processes: int = 1,
        clock: Clock | None = None,
    ) -> None:
        """`processes` is the number that share the rate, used until Redis reports the real one."""
        self._model = model
        self._clock = clock or Clock()
        self._shared = Shared(redis_url, name, rate)
        self._alone = Alone(name, rate, self._clock.now, processes)
        self._away_until: float | None = None
        self._lock = threading.Lock()
        self._most = float(concurrency)
        self._allowed = float(concurrency)
        self._halved_at = float("-inf")
        self._successes = 0
        self._failures = 0
        self._resume_at = float("-inf")
        self._calm_until = float("-inf")
        #: Maximum number of tokens in one request that still fits into the budget.
        self.max_request_tokens = rate.tokens

    @property
    def concurrency(self) -> int:
        """Requests that this process may have in flight."""
        return int(self._allowed)

    def call(
        self,
        send: Callable[[], Vectors],
        *,
        project: str,
        tokens: int,
        check: Callable[[], None] = unchecked,
        patience: float = PATIENCE,
    ) -> Vectors:
        """Wait for permission, send once, and record the result for the fleet. `check` may raise while waiting.

        Raises what `send` raises. Raises `EmbeddingUnavailable` with `gave_up` set, and sends nothing, if permission
        would take longer than `patience` seconds.
        """
        token = uuid4().hex
        try:
            self._wait(lambda: self._leave(token, project, tokens), check, patience)
        except BaseException:  # whatever ended the wait, let other requests probe
            self._use(lambda ledger: ledger.settled(token, alive=False))
            raise
        return self._send(send, token)

    def query(self, send: Callable[[], Vectors], *, tokens: int) -> Vectors:
        """Send a request that a user waits for. It is charged but no rate holds it back; only a blocked provider does.

        Raises as `call` does.
        """
        token = uuid4().hex
        if not self._is_calm():
            self._wait(lambda: self._ask("", token), unchecked, QUERY_PATIENCE)
        self._use(lambda ledger: ledger.spend("", tokens, 1, force=True))
        return self._send(send, token)

    def _leave(self, token: str, project: str, tokens: int) -> Leave:
        left = self._resume_at - self._clock.now()
        if left > 0:
            return Leave(left, reason=f"{self._model} does not answer")
        leave = self._ask(project, token)
        if leave.wait or self._use(lambda ledger: ledger.spend(project, tokens, leave.active)):
            return leave
        return Leave(POLL, leave.active, "EMBEDDING_RPM or EMBEDDING_TPM is used up, or this project's share of it")

    def _ask(self, project: str, token: str) -> Leave:
        leave = self._use(lambda ledger: ledger.ask(project, token))
        if leave.sharing:
            self._alone.sharing = leave.sharing
        if not leave.wait and not leave.failures:
            self._calm_until = self._clock.now() + CALM
        return leave

    def _is_calm(self) -> bool:
        """Whether the ledger reported no failures a moment ago: there is nothing to wait for and nothing to reset."""
        return self._clock.now() < self._calm_until

    def _wait(self, ask: Callable[[], Leave], check: Callable[[], None], patience: float) -> None:
        until = self._clock.now() + patience
        while True:
            check()
            leave = ask()
            if not leave.wait:
                return
            if self._clock.now() + leave.wait > until:
                raise EmbeddingUnavailable(
                    f"{leave.reason or self._model}; asked again in {max(1, round(leave.wait))} s.",
                    retry_after=leave.wait,
                    gave_up=True,
                )
            self._clock.pause(min(leave.wait, STEP))

    def _send(self, send: Callable[[], Vectors], token: str) -> Vectors:
        began = self._clock.now()
        try:
            vectors = send()
        except EmbeddingUnavailable as error:
            self._failed(error, token, began)
            raise
        except BaseException as error:  # a refusal is an answer too; after anything else, let other requests probe
            alive = isinstance(error, EmbeddingError)
            self._use(lambda ledger: ledger.settled(token, alive=alive))
            raise
        self._succeeded(token)
        return vectors

    def _succeeded(self, token: str) -> None:
        with self._lock:
            self._failures = 0
            self._successes += 1
            if self._successes >= SUCCESSES:
                self._allowed, self._successes = min(self._most, self._allowed + 1), 0
        if not self._is_calm():
            self._use(lambda ledger: ledger.settled(token, alive=True))

    def _failed(self, error: EmbeddingUnavailable, token: str, began: float) -> None:
        """Record the failure and set the error's `retry_after` to the seconds until this process asks again."""
        self._calm_until = float("-inf")
        status = error.data.get("status_code")
        told = min(float(error.data.get("retry_after") or 0), LONGEST_RETRY_AFTER)
        limited = status == HTTPStatus.TOO_MANY_REQUESTS
        pause = told or self._back_off(began)
        if limited:
            self._halve(began)
        error.data["retry_after"] = pause
        reason = f"{self._model} is busy (HTTP {status})" if status else f"{self._model} does not answer"
        after = 1 if limited else OPEN_AFTER
        self._use(lambda ledger: ledger.failed(token, told, after, reason))

    def _back_off(self, began: float) -> float:
        """Pause this process, once for all requests that failed together. Returns the seconds."""
        with self._lock:
            now = self._clock.now()
            if began >= self._resume_at:
                self._failures += 1
                longest = min(LONGEST_BLOCK, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 20))
                self._resume_at = now + random.uniform(longest / 2, longest)  # noqa: S311 - spreads processes out
            return max(0.0, self._resume_at - now)

    def _halve(self, began: float) -> None:
        """Halve the requests in flight, once for all requests that were refused together."""
        with self._lock:
            self._successes = 0
            if began > self._halved_at:
                self._allowed, self._halved_at = max(1.0, self._allowed / 2), self._clock.now()

    def _use(self, act: Callable[[Ledger], T]) -> T:
        """Act on the fleet's ledger, or on this process's own ledger while Redis is away."""
        if self._away_until is None or self._clock.now() >= self._away_until:
            try:
                done = act(self._shared)
            except RedisError as error:
                if self._away_until is None:
                    log.warning("Redis does not answer; each worker keeps to the budget by itself", error=str(error))
                self._away_until = self._clock.now() + AWAY
            else:
                self._away_until = None
                return done
        return act(self._alone)
