"""Rates of requests and tokens, and their usage.

The library `limits` counts. Requests use a moving window, which is exact. Tokens use a sliding window of two counters,
because one request has many.
"""

from __future__ import annotations

from dataclasses import dataclass

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.storage import Storage
from limits.strategies import MovingWindowRateLimiter, SlidingWindowCounterRateLimiter


@dataclass(frozen=True, slots=True)
class Rate:
    """The total that may be spent in `window` seconds; None is unlimited."""

    requests: int | None
    tokens: int | None
    window: int

    @classmethod
    def per_minute(cls, requests: int | None, tokens: int | None) -> Rate:
        """Return a minute's budget. A large one is split into windows of 10 s, so that no request waits a minute."""
        window = 60 if requests is not None and requests < 60 else 10  # noqa: PLR2004 - fewer than one a second
        part = [None if limit is None else max(1, limit * window // 60) for limit in (requests, tokens)]
        return cls(part[0], part[1], window)


@dataclass(frozen=True, slots=True)
class SharedRate:
    """The rate per minute that all processes share for one model at one address, and the name of its counter."""

    name: str
    requests: int | None
    tokens: int | None

    @property
    def rate(self) -> Rate:
        """The same rate, split into windows."""
        return Rate.per_minute(self.requests, self.tokens)


class SpentRate:
    """The usage of a rate, in a `limits` storage."""

    def __init__(self, storage: Storage, name: str, rate: Rate) -> None:
        self._name = name
        self._exact = MovingWindowRateLimiter(storage)
        self._counted = SlidingWindowCounterRateLimiter(storage)
        self._requests = _item(rate.requests, rate.window, "requests")
        self._tokens = _item(rate.tokens, rate.window, "tokens")

    def spend(self, project: str, tokens: int, active_projects: int, *, force: bool) -> bool:
        """Charge a request, as `Limiter` says. A request larger than the whole rate takes all of it."""
        costs = [(item, cost) for item, cost in ((self._tokens, tokens), (self._requests, 1)) if item is not None]
        costs = [(item, min(cost, item.amount)) for item, cost in costs]
        if not force and not all(self._fits(item, cost, project, active_projects) for item, cost in costs):
            return False
        if self._requests is not None and not self._exact.hit(self._requests, self._name) and not force:
            return False
        for item, cost in costs:
            # another process may have spent since `_fits` looked
            if item is self._tokens and not self._counted.hit(item, self._name, cost=cost) and not force:
                return False
            self._counted.hit(item, self._name, project, cost=cost)
        return True

    def left(self) -> tuple[int | None, int | None]:
        """Return the requests and tokens that may be spent now; None is unlimited."""
        exact, counted = self._exact, self._counted
        requests = None if self._requests is None else exact.get_window_stats(self._requests, self._name).remaining
        tokens = None if self._tokens is None else counted.get_window_stats(self._tokens, self._name).remaining
        return requests, tokens

    def _fits(self, item: RateLimitItem, cost: int, project: str, active_projects: int) -> bool:
        if item is self._tokens and not self._counted.test(item, self._name, cost=cost):
            return False
        if active_projects <= 1:
            return True
        spent = item.amount - self._counted.get_window_stats(item, self._name, project).remaining
        return spent == 0 or spent + cost <= item.amount / active_projects


def _item(amount: int | None, window: int, kind: str) -> RateLimitItem | None:
    return None if amount is None else RateLimitItemPerSecond(amount, window, namespace=kind)
