"""Decides when a provider may be asked: one budget for all workers, and back-off from a busy or failing provider.

One limiter (`worker.embed.limiter`) counts requests and tokens per minute. While several projects send requests, none
gets more than its share. While Redis is away, each process keeps to an equal part of the rate. `worker.embed.retry`
decides how to continue after a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

import structlog
from redis import RedisError

from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnavailable, LlmError, ModelUnavailable
from worker.embed import retry
from worker.embed.fleet import FleetLimiter
from worker.embed.learned import RequestSizes
from worker.embed.limiter import Limiter, LocalLimiter, Permit
from worker.embed.rates import Rate

T = TypeVar("T")

#: Seconds between two checks of the lease while waiting.
LEASE_CHECK_SECONDS = 0.25
#: Seconds for which queries trust the limiter's answer that nothing fails. A check takes a notable part of a search.
CALM_SECONDS = 0.1
#: Seconds for which a Redis that did not answer is not tried again.
REDIS_PAUSE_SECONDS = 5.0

log = structlog.get_logger()


def no_check() -> None:
    """Do nothing. The default check, which never raises."""


class RateBudget:
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
        clock: retry.TimeSource | None = None,
        variables: str = "EMBEDDING_RPM or EMBEDDING_TPM",
        unavailable: type[ModelUnavailable] = EmbeddingUnavailable,
    ) -> None:
        """`processes` is the number that share the rate, used until Redis reports the real one.

        `variables` names the settings of the rate, and `unavailable` is raised while the model cannot be asked.
        """
        self._model = model
        self._variables, self._unavailable = variables, unavailable
        self._clock = clock or retry.TimeSource()
        self._fleet = FleetLimiter(redis_url, name, rate)
        self._local = LocalLimiter(rate, self._clock.now, processes)
        self._without_redis_until: float | None = None
        self._pace = retry.Pace(concurrency)
        #: The learned request sizes of the provider.
        self.sizes = RequestSizes()
        self._has_no_quota = False
        self._calm_until = float("-inf")
        self._active_projects = 1
        #: Maximum number of tokens in one request that still fits into the budget.
        self.max_request_tokens = rate.tokens

    @property
    def concurrency(self) -> int:
        """Maximum number of requests in flight of this process."""
        return self._pace.concurrency

    @property
    def request_share(self) -> float:
        """The share of a model's largest request that this process sends at a time."""
        return self._pace.request_share

    def largest_request(self, max_texts: int, max_tokens: int) -> tuple[int, int]:
        """Return the texts and tokens of the largest request to send now, within the model's own limits."""
        return (1, max_tokens) if self._has_no_quota else self.sizes.of(max_texts, max_tokens)

    def note_answer(self, tokens: list[int]) -> None:
        """Learn from an answer to texts with these numbers of tokens."""
        self._learn(lambda: self.sizes.note_answer(tokens))

    def note_refusal(self, refusal: EmbeddingRefused, tokens: list[int]) -> None:
        """Learn from a refusal of texts with these numbers of tokens."""
        self._learn(lambda: self.sizes.note_refusal(refusal, tokens))

    def note_size_refusal(self, texts: int) -> None:
        """Learn that a request of this many texts was refused for its size."""
        self._learn(lambda: self.sizes.was_for_size(texts))

    def excuse(self, texts: int) -> None:
        """Learn that a request of this many texts was refused for another reason than its size."""
        self._learn(lambda: self.sizes.excuse(texts))

    def _learn(self, learn: Callable[[], None]) -> None:
        """Learn, and share new limits that are useful to other processes."""
        before = self.sizes.shared
        was_bounded = self.sizes.is_bounded
        learn()
        shared = self.sizes.shared
        if shared != before and (was_bounded or self.sizes.is_bounded):
            self._with_limiter(lambda limiter: limiter.share_sizes(shared))

    def call(
        self,
        send: Callable[[], T],
        *,
        project: str,
        tokens: int,
        share: float = 1.0,
        check: Callable[[], None] = no_check,
        patience: float = retry.SLICE_RETRY_SECONDS,
    ) -> T:
        """Wait for permission, send once, and record the result for the fleet. `check` may raise while waiting.

        `share` is the request's share of the model's largest one.

        Raises the error of `send`; a `ModelUnavailable` then says when this process asks again. Sends nothing, and
        raises one with `was_sent` False, if permission would take longer than `patience` seconds.
        """
        request_id = uuid4().hex
        try:
            self._wait(lambda: self._request_and_spend(request_id, project, tokens), check, patience)
        except BaseException:  # whatever ended the wait, let other requests probe
            self._with_limiter(lambda limiter: limiter.record_end(request_id, answered=False))
            raise
        return self._send(send, request_id, share)

    def charge(self, *, project: str, tokens: int, check: Callable[[], None] = no_check) -> None:
        """Wait until the rate allows one more request within a call, and charge it. `check` may raise while waiting."""
        while not self._with_limiter(lambda limiter: limiter.spend(project, tokens, self._active_projects)):
            check()
            self._clock.pause(retry.POLL_SECONDS)

    def query(self, send: Callable[[], T], *, tokens: int) -> T:
        """Send a request that a user waits for. The rate is charged but never delays it; only a blocked provider does.

        Raises as `call` does.
        """
        request_id = uuid4().hex
        if not self._is_calm():
            self._wait(lambda: self._request_permit("", request_id), no_check, retry.QUERY_RETRY_SECONDS)
        self._with_limiter(lambda limiter: limiter.spend("", tokens, 1, force=True))
        return self._send(send, request_id)

    def _request_and_spend(self, request_id: str, project: str, tokens: int) -> Permit:
        pause = self._pace.pause(self._clock.now())
        if pause:
            return Permit(pause, reason=f"{self._model} does not answer")
        permit = self._request_permit(project, request_id)
        active = permit.active_projects
        if permit.wait or self._with_limiter(lambda limiter: limiter.spend(project, tokens, active)):
            return permit
        reason = f"{self._variables}, or this project's share of it, is used up"
        return Permit(retry.POLL_SECONDS, active, reason)

    def _request_permit(self, project: str, request_id: str) -> Permit:
        permit = self._with_limiter(lambda limiter: limiter.request_permit(project, request_id))
        self._active_projects = permit.active_projects
        self._has_no_quota = permit.has_no_quota
        self.sizes.take(permit.sizes)
        if permit.processes:
            self._local.processes = permit.processes
        if not permit.wait and not permit.failures:
            self._calm_until = self._clock.now() + CALM_SECONDS
        return permit

    def _is_calm(self) -> bool:
        """Return whether the limiter just reported no failures, so that there is nothing to wait for or reset."""
        return self._clock.now() < self._calm_until

    def _wait(self, ask: Callable[[], Permit], check: Callable[[], None], patience: float) -> None:
        until = self._clock.now() + patience
        while True:
            check()
            permit = ask()
            if not permit.wait:
                return
            if self._clock.now() + permit.wait > until:
                probed = f"{self._model} failed repeatedly, and one request at a time checks whether it is back"
                if permit.has_no_quota:
                    probed = retry.no_quota(self._model)
                raise self._unavailable(
                    f"{permit.reason or probed}; retrying in {max(1, round(permit.wait))} s.",
                    retry_after=permit.wait,
                    was_sent=False,
                )
            self._clock.pause(min(permit.wait, LEASE_CHECK_SECONDS))

    def _send(self, send: Callable[[], T], request_id: str, share: float = 1.0) -> T:
        began = self._clock.now()
        try:
            answer = send()
        except ModelUnavailable as error:
            pause = self._record_failure(retry.failure_of(self._model, error), request_id, began, share)
            raise self._unavailable(
                error.message,
                retry_after=pause,
                provider_status=error.provider_status,
                was_taken=error.was_taken,
                has_no_quota=error.has_no_quota,
            ) from error
        except BaseException as error:  # a refusal is an answer too; after anything else, let other requests probe
            answered = isinstance(error, EmbeddingError | LlmError)
            self._with_limiter(lambda limiter: limiter.record_end(request_id, answered=answered))
            raise
        self._pace.note_success()
        if not self._is_calm():
            self._with_limiter(lambda limiter: limiter.record_end(request_id, answered=True))
        return answer

    def _record_failure(self, failure: retry.Failure, request_id: str, began: float, share: float) -> float:
        """Record a failure. Returns the seconds until this process asks again."""
        self._has_no_quota = failure.has_no_quota
        self._calm_until = float("-inf")
        pause = self._pace.note_failure(failure, began, self._clock.now(), share)
        self._with_limiter(lambda limiter: limiter.record_failure(request_id, failure))
        return pause

    def _with_limiter(self, act: Callable[[Limiter], T]) -> T:
        """Use the fleet's limiter, or this process's own one while Redis is away."""
        if self._without_redis_until is None or self._clock.now() >= self._without_redis_until:
            try:
                answer = act(self._fleet)
            except RedisError as error:
                if self._without_redis_until is None:
                    log.warning(
                        "Redis does not answer; each process limits itself to a share of the budget", error=str(error)
                    )
                self._without_redis_until = self._clock.now() + REDIS_PAUSE_SECONDS
            else:
                self._without_redis_until = None
                return answer
        return act(self._local)
