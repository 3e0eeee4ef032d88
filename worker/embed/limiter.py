"""The limiter of a provider, which decides whether a request may be sent: its circuit breaker and its rate limit.

`FleetLimiter` in `worker.embed.fleet` does this for all processes. `LocalLimiter` does it for a single process while
Redis is unavailable. `worker.embed.retry` decides when the breaker opens, and for how long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from worker.embed import retry
from worker.embed.rates import Rate

#: Seconds for which a project counts as active after it asked.
ACTIVE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Permit:
    """The answer to `Limiter.request_permit`: seconds to wait (0 if the request may be sent) and the reason.

    The reason is empty while another request probes whether the provider is back. `active_projects` is the number of
    projects that currently send requests. `failures` counts consecutive failures over all workers. `processes` is the
    number of processes that recently used the rate, if known. `sizes` holds the request sizes that the fleet has
    learned, as of `RequestSizes.shared`. `has_no_quota`: only a request of one text may be sent.
    """

    wait: float
    active_projects: int = 1
    reason: str = ""
    failures: int = 0
    processes: int | None = None
    sizes: str = ""
    has_no_quota: bool = False


class Limiter(Protocol):
    """See `FleetLimiter`. `request_id` identifies the request that probes, if only one may."""

    def request_permit(self, project: str, request_id: str) -> Permit:
        """Return whether a request may be sent now, and the wait if not."""
        ...

    def spend(self, project: str, tokens: int, active_projects: int, *, force: bool = False) -> bool:
        """Charge one request of `tokens` to the rate if it and the project's share allow that, or with `force`."""
        ...

    def record_failure(self, request_id: str, failure: retry.Failure) -> None:
        """Block the provider for as long as it asks, or for `retry.BLOCK_SECONDS` after enough failures."""
        ...

    def record_end(self, request_id: str, *, answered: bool) -> None:
        """Let the next request probe; reset the failures if the provider answered."""
        ...

    def share_sizes(self, sizes: str) -> None:
        """Share the request sizes that this process learned with all processes."""
        ...


@dataclass(frozen=True, slots=True)
class _SpentAmount:
    """An amount that counts against a limit until a given time."""

    kind: str
    project: str
    amount: int
    until: float


@dataclass
class LocalLimiter:
    """The limiter of one process, for its part of a rate that `processes` share. Thread-safe."""

    rate: Rate
    now: Callable[[], float] = time.monotonic
    processes: int = 1
    _asked_at: dict[str, float] = field(default_factory=dict)
    _failures: int = 0
    _blocked_until: float = 0.0
    _reason: str = ""
    _probe: tuple[str, float] | None = None
    _has_no_quota: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _costs: list[_SpentAmount] = field(default_factory=list)

    def request_permit(self, project: str, request_id: str) -> Permit:
        """See `Limiter`."""
        with self._lock:
            now = self.now()
            self._asked_at = {name: time_ for name, time_ in self._asked_at.items() if time_ > now - ACTIVE_SECONDS}
            if project:
                self._asked_at[project] = now
            active = len(self._asked_at)
            if self._blocked_until > now:
                permit = permit_of(self._blocked_until - now, active, self._reason, self._failures)
                return replace(permit, has_no_quota=self._has_no_quota)
            if self._failures >= retry.FAILURES_TO_BLOCK:
                if self._probe and self._probe[0] != request_id and self._probe[1] > now:
                    return replace(permit_of(-1, active, "", self._failures), has_no_quota=self._has_no_quota)
                self._probe = request_id, now + retry.PROBE_SECONDS
            return Permit(0, active, failures=self._failures, has_no_quota=self._has_no_quota)

    def spend(self, project: str, tokens: int, active_projects: int, *, force: bool = False) -> bool:
        """See `Limiter`."""
        with self._lock:
            now = self.now()
            self._costs = [cost for cost in self._costs if cost.until > now]
            limits = [("requests", self.rate.requests, 1), ("tokens", self.rate.tokens, tokens)]
            parts = [(kind, limit / self.processes, amount) for kind, limit, amount in limits if limit is not None]
            if not force and not all(self._fits(*part, project, active_projects) for part in parts):
                return False
            for kind, part, amount in parts:
                # A cost above this process's part blocks it for correspondingly many windows.
                windows = max(1.0, amount / part)
                self._costs.append(_SpentAmount(kind, project, amount, now + self.rate.window * windows))
            return True

    def _fits(self, kind: str, part: float, amount: int, project: str, active_projects: int) -> bool:
        """Return whether an amount fits into this process's part of a limit, and into the project's share of that part.

        An amount larger than the part waits until nothing else is spent.
        """
        costs = [cost for cost in self._costs if cost.kind == kind]
        total = sum(cost.amount for cost in costs)
        of_project = sum(cost.amount for cost in costs if cost.project == project)
        if total and total + amount > part:
            return False
        return active_projects <= 1 or not of_project or of_project + amount <= part / active_projects

    def record_failure(self, request_id: str, failure: retry.Failure) -> None:
        """See `Limiter`."""
        with self._lock:
            now, wait = self.now(), failure.retry_after
            self._end_probe(request_id)
            if failure.has_no_quota:
                # from now on, one request at a time
                self._has_no_quota, self._failures = True, max(self._failures, retry.FAILURES_TO_BLOCK)
            if self._blocked_until <= now:
                self._failures += 1
                further = self._failures - failure.failures_to_block
                if not wait and further >= 0:
                    wait = retry.BLOCK_SECONDS[min(further, len(retry.BLOCK_SECONDS) - 1)]
            if wait and now + wait > self._blocked_until:
                self._blocked_until, self._reason = now + wait, failure.reason

    def record_end(self, request_id: str, *, answered: bool) -> None:
        """See `Limiter`."""
        with self._lock:
            self._end_probe(request_id)
            if answered:
                self._failures, self._has_no_quota = 0, False

    def share_sizes(self, sizes: str) -> None:
        """Do nothing, because no other process listens."""

    def _end_probe(self, request_id: str) -> None:
        if self._probe and self._probe[0] == request_id:
            self._probe = None


def permit_of(wait: float, active_projects: int, reason: str, failures: int) -> Permit:
    """Return a permit; `wait` is negative while another request probes the provider."""
    if wait < 0:
        return Permit(retry.probe_poll_seconds(), active_projects, failures=failures)
    return Permit(wait and retry.spread(wait), active_projects, reason, failures)
