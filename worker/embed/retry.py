"""The retry policy of embedding: what a failure means, how long to wait, when to give up, what to send again.

- A `Retry-After` holds for the whole fleet. So does a 429 without one: for 1 s, doubled after each further failure.
- Each 429 halves the number of requests that a process has in flight; after some successes the number grows by one.
- After a 5xx, a time-out or a lost connection, a process pauses by itself. After several such failures in a row over
  all workers, the provider is blocked for the whole fleet, for up to a minute. Then one request at a time probes it
  until one succeeds.
- A request that fails after a long time was too large for its server: then a process sends requests of at most half
  its size. After a few successes their size doubles, up to one that was answered before. A larger one is tried after
  more successes, twice as many each time that it fails.
- A request is repeated in place for `SLICE_RETRY_SECONDS`. Beyond that the files go back, and the task waits instead
  of the worker.
- A server that fails at some texts while it answers others cannot handle these texts: the request is refused. To fail
  is to answer 500, to close the connection, or to take too long for a single text.
- A refused request is split until the refused texts are alone. So is one whose answer cannot be read, at once to the
  number of vectors in the answer. If many are unreadable before the first that can be read, the provider is at fault,
  and the task ends.

This module only decides. `fleet` shares the failures, `rate_limit` asks before each request, and `batching` sends.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable, Excess, ModelUnavailable

#: Consecutive failures, over all workers, after which the provider is blocked. One 429 is enough.
FAILURES_TO_BLOCK = 5
#: Seconds for which the provider is blocked, after the failure that blocks it and after each further one.
BLOCK_SECONDS = (1, 2, 4, 8, 16, 32, 60)
#: Seconds after which consecutive failures are forgotten.
FAILURE_MEMORY_SECONDS = 600
#: Seconds until another request may probe if the probing one does not return: a request's time-out and some margin.
PROBE_SECONDS = 70
#: Maximum `Retry-After` in seconds, for a provider that says "tomorrow".
LONGEST_RETRY_AFTER_SECONDS = 600.0

#: Seconds of a process's first pause; each further failure doubles it.
FIRST_PAUSE_SECONDS = 0.5
#: Maximum seconds of a process's pause.
LONGEST_PAUSE_SECONDS = 60.0
#: Successes after which a process may have one more request in flight.
SUCCESSES_TO_GROW = 8

#: Seconds after which a request that fails was too large. Many servers compute one text after the other.
SLOW_SECONDS = 30.0
#: The smallest share of the largest request.
SMALLEST_SHARE = 1 / 2048
#: Successes after which a process sends requests of twice the size: few up to a size that was answered before, because
#: in an outage all sizes fail. Beyond it they double with each failure, because an attempt costs a time-out.
FEWEST_TO_ENLARGE, MOST_TO_ENLARGE = 2, 64

#: Seconds that a slice waits in place for one request.
SLICE_RETRY_SECONDS = 5.0
#: Seconds that a user's query waits for a blocked provider.
QUERY_RETRY_SECONDS = 2.0
#: Seconds until a request that was held back asks again.
POLL_SECONDS = 0.25
#: Seconds over which requests that waited for the same moment are spread.
SPREAD_SECONDS = 0.5

#: Seconds between two requests, of one text each, to a provider whose account has no quota left.
QUOTA_SECONDS = 30.0

#: Faults in a row, each while the server answers another text, after which a request is refused; seconds between them.
FAULTS_TO_REFUSE, FAULT_PAUSE_SECONDS = 3, 0.25
#: The same for a single text and unusable answers. Each may be paid for; several texts are split at once.
UNREADABLE_TO_REFUSE = 2
#: The same for a single text and closed connections, because a bad network closes some of them by chance.
DROPS_TO_REFUSE = 5
#: After a request without an answer, another text must be answered within these seconds, or this share of its time.
#: An overloaded server takes long for every text. One that still computes the first text may be asked this often.
SOON_SECONDS, SOON_SHARE, HARMLESS_TRIES = 5.0, 0.1, 2

#: Refused requests after which batches are no longer split. This is enough for about twenty bad texts among thousands.
MAX_REFUSALS = 256
#: Unreadable answers without any readable one after which a provider is given up. Halving a batch to one text takes
#: ten.
MAX_UNREADABLE = 32


@dataclass(frozen=True, slots=True)
class Failure:
    """The consequences of a failed request for later ones. `retry_after` is 0 if the provider asks for no wait."""

    retry_after: float
    is_rate_limit: bool
    reason: str
    #: Whether the account's quota is used up. Then one text at a time tests whether it has quota again.
    has_no_quota: bool = False

    @property
    def failures_to_block(self) -> int:
        """Consecutive failures after which the provider is blocked."""
        return 1 if self.is_rate_limit else FAILURES_TO_BLOCK


def failure_of(model: str, error: ModelUnavailable) -> Failure:
    """Return the consequences of a failed request to a model."""
    status = error.provider_status
    if error.has_no_quota:
        return Failure(QUOTA_SECONDS, is_rate_limit=False, reason=no_quota(model), has_no_quota=True)
    return Failure(
        min(error.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS),
        status == HTTPStatus.TOO_MANY_REQUESTS,
        trouble(model, status),
    )


def may_be_fault_of_text(error: ModelUnavailable) -> bool:
    """Return whether a text may have made its server fail. A busy server answers differently, or asks to wait."""
    return has_failed(error) and not error.retry_after


def has_failed(error: ModelUnavailable) -> bool:
    """Return whether a server failed at a request that it accepted."""
    return error.was_taken or error.provider_status == HTTPStatus.INTERNAL_SERVER_ERROR


def is_too_large(error: EmbeddingUnavailable, texts: int, seconds: float) -> bool:
    """Return whether a failed request was too large: it had several texts, and a long time passed without an answer."""
    return error.was_taken and texts > 1 and seconds >= SLOW_SECONDS


def faults_to_refuse(error: EmbeddingUnavailable | EmbeddingUnreadable, texts: int, seconds: float) -> int:
    """Return the faults in a row, the last one after `seconds`, after which a request of `texts` texts is refused."""
    if isinstance(error, EmbeddingUnreadable):
        return UNREADABLE_TO_REFUSE if texts == 1 else 1
    is_drop = error.was_taken and seconds < SLOW_SECONDS
    return DROPS_TO_REFUSE if is_drop and texts == 1 else FAULTS_TO_REFUSE


def fault(error: ModelUnavailable) -> str:
    """Return the message for a server that fails at a text."""
    if error.was_taken:
        return "does not answer this one: it closes the connection, or takes too long"
    return f"fails at this one with HTTP {error.provider_status}"


def trouble(model: str, status: int | None, wait: float | None = None) -> str:
    """Return the message for a model that cannot be used now: its HTTP status, and the wait that it asks for."""
    if status is None:
        return f"{model} does not answer"
    is_fault = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.SERVICE_UNAVAILABLE
    what = f"has a fault (HTTP {status})" if is_fault else f"is busy (HTTP {status})"
    return f"{model} {what} and asks to wait {wait:.0f} s" if wait else f"{model} {what}"


def no_quota(model: str) -> str:
    """Return the message for a model whose account has no quota left."""
    return f"{model} has no quota left; add credit to its account, or raise its limit. One text is tried every 30 s"


def spread(seconds: float) -> float:
    """Return a slightly longer wait, so that requests that wait for the same moment do not start together."""
    return seconds + random.uniform(0, SPREAD_SECONDS)  # noqa: S311 - spreads waiting requests


def probe_poll_seconds() -> float:
    """Return the seconds until a request that waits for another's probe asks again."""
    return random.uniform(POLL_SECONDS, 2 * POLL_SECONDS)  # noqa: S311 - spreads waiting requests


@dataclass(frozen=True, slots=True)
class TimeSource:
    """The source of time; tests replace it to avoid waiting."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class Pace:
    """The send rate of one process: its pause after failures, and the number and size of its requests. Thread-safe."""

    def __init__(self, concurrency: int) -> None:
        self._lock = threading.Lock()
        self._max_concurrency = float(concurrency)
        self._concurrency = float(concurrency)
        self._halved_at = float("-inf")
        self._successes = 0
        self._failures = 0
        self._resume_at = float("-inf")
        self._share, self._answers = 1.0, 0
        #: The largest share known to be answered, and the successes before a larger one is tried.
        self._proven_share, self._answers_to_try = 1.0, FEWEST_TO_ENLARGE
        #: Whether any request was answered since one was too large.
        self._has_answer = False

    @property
    def request_share(self) -> float:
        """The share of a model's largest request that this process sends at a time."""
        return self._share

    @property
    def concurrency(self) -> int:
        """Maximum number of requests in flight of this process."""
        return int(self._concurrency)

    def pause(self, now: float) -> float:
        """Return the seconds for which this process still pauses."""
        return max(0.0, self._resume_at - now)

    def note_success(self) -> None:
        """Forget the failures; allow more requests in flight, and larger ones, after enough successes."""
        with self._lock:
            self._failures = 0
            self._enlarge()
            self._successes += 1
            if self._successes >= SUCCESSES_TO_GROW:
                self._concurrency, self._successes = min(self._max_concurrency, self._concurrency + 1), 0

    def note_failure(self, failure: Failure, began: float, now: float, share: float = 1.0) -> float:
        """Return the seconds until this process should ask again, after the failure of a request that began at `began`.

        `share` is its share of the model's largest request.
        """
        with self._lock:
            if failure.is_rate_limit:
                self._halve(began, now)
            elif now - began >= SLOW_SECONDS:
                self._shrink(max(SMALLEST_SHARE, share / 2))
            return failure.retry_after or self._back_off(began, now)

    def _enlarge(self) -> None:
        """Count a success, and send larger requests after enough successes."""
        self._answers += 1
        self._has_answer = True
        is_proven = 2 * self._share <= self._proven_share
        if self._answers < (FEWEST_TO_ENLARGE if is_proven else self._answers_to_try):
            return
        if self._share > self._proven_share:
            self._proven_share = self._share
            self._answers_to_try = max(FEWEST_TO_ENLARGE, self._answers_to_try // 2)
        self._share, self._answers = min(1.0, 2 * self._share), 0

    def _shrink(self, share: float) -> None:
        """Send requests of at most this share. Only the first failure after an answer reveals anything about size."""
        if share >= self._share:
            return
        if self._has_answer:
            self._proven_share = min(self._proven_share, share)
            self._answers_to_try = min(MOST_TO_ENLARGE, 2 * self._answers_to_try)
        self._share, self._answers, self._has_answer = share, 0, False

    def _halve(self, began: float, now: float) -> None:
        """Halve the requests in flight, once for all requests that failed together."""
        self._successes = 0
        if began > self._halved_at:
            self._concurrency, self._halved_at = max(1.0, self._concurrency / 2), now

    def _back_off(self, began: float, now: float) -> float:
        """Pause, once for all requests that failed together."""
        if began >= self._resume_at:
            self._failures += 1
            longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 20))
            self._resume_at = now + random.uniform(longest / 2, longest)  # noqa: S311 - spreads processes out
        return self.pause(now)


class Patience:
    """The time limit for repeating the requests of one slice: `SLICE_RETRY_SECONDS` from the first failure."""

    def __init__(self) -> None:
        self._failing_since: float | None = None

    def note_success(self) -> None:
        """Start again at the next failure."""
        self._failing_since = None

    def covers(self, error: EmbeddingUnavailable, now: float) -> bool:
        """Return whether to repeat a failed request. A request that was held back has already waited long enough."""
        if not error.was_sent:
            return False
        if self._failing_since is None:
            self._failing_since = now
        return now + (error.retry_after or 0.0) < self._failing_since + SLICE_RETRY_SECONDS


def split(
    batch: Sequence[int], refusal: EmbeddingRefused, refusals: int, tokens: Sequence[int], *, again: bool = False
) -> tuple[list[int], list[list[int]]]:
    """Return the refused texts of a refused request, and the requests to send instead.

    A text counts as refused if the provider names it, if it was alone, or after `MAX_REFUSALS` refused requests. A text
    is sent once more if only its vector is unusable. A provider that answered with too few vectors gets as many texts
    as it answered, unless it does so `again`: each answer may have been paid for. If a text is too long, the shorter
    half is sent first, because it is more likely to be accepted.
    """
    named = {batch[index] for index in refusal.indices}
    if named and len(batch) > 1 and isinstance(refusal, EmbeddingUnreadable) and refusals < MAX_REFUSALS:
        return [], [[index] for index in batch if index in named]
    if refusal.excess is None and not named and refusals >= MAX_REFUSALS:
        return sorted(batch), []
    if not named and len(batch) == 1:
        return sorted(batch), []
    rest = [index for index in batch if index not in named]
    if refusal.excess is Excess.LENGTH:
        by_length = [index for _, index in sorted(zip(tokens, batch, strict=True))]
        rest = [index for index in by_length if index not in named]
    size = len(rest) if named else _smaller(len(rest), refusal, again=again)
    return sorted(named), [rest[start : start + size] for start in range(0, len(rest), size)] if rest else []


def _smaller(size: int, refusal: EmbeddingRefused, *, again: bool) -> int:
    """Return the number of texts to send at a time after a refused request of `size` texts."""
    vectors = refusal.vectors if isinstance(refusal, EmbeddingUnreadable) and not again else 0
    stated = refusal.most or vectors
    return stated if 0 < stated < size else (size + 1) // 2
