"""The circuit breaker and the rate limit of a provider: which projects ask, what was spent, and whether it is blocked.

Two classes do the same. `FleetLimiter` keeps its data in Redis for the whole fleet and uses the clock of Redis.
`LocalLimiter` works within one process while Redis is away. In Redis, `limits` counts what is spent. Requests use a
moving window, which is exact. Tokens, of which one request has many, use a sliding window of two counters. A process
without Redis takes an equal part of the rate: it divides by the number of processes that shared the rate at its last
contact with Redis. When the breaker opens, and for how long, `worker.embed.retry` decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import uuid4

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.storage import RedisStorage, Storage
from limits.strategies import MovingWindowRateLimiter, SlidingWindowCounterRateLimiter
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.retry import Retry

from worker.embed import retry

#: Seconds for which a project counts as active after it asked.
ACTIVE_SECONDS = 5
#: Seconds for which a process counts as sharing the rate after it asked.
SHARING_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Rate:
    """The total that may be spent in `window` seconds; None is unlimited."""

    requests: int | None
    tokens: int | None
    window: int

    @classmethod
    def per_minute(cls, requests: int | None, tokens: int | None) -> Rate:
        """A minute's budget, split into windows of 10 s if it is large enough, so that no request waits a minute."""
        window = 60 if requests is not None and requests < 60 else 10  # noqa: PLR2004 - fewer than one a second
        part = [None if limit is None else max(1, limit * window // 60) for limit in (requests, tokens)]
        return cls(part[0], part[1], window)


@dataclass(frozen=True, slots=True)
class SharedRate:
    """What all processes may spend a minute on one model at one address, and the name under which they count it."""

    name: str
    requests: int | None
    tokens: int | None

    @property
    def rate(self) -> Rate:
        """The same as windows."""
        return Rate.per_minute(self.requests, self.tokens)


@dataclass(frozen=True, slots=True)
class Permit:
    """The answer to `Limiter.request_permit`: seconds to wait (0 if the request may go out) and the reason.

    It names no reason while another request finds out whether the provider is back.
    `active_projects` are asking at the moment. `failures` counts consecutive failures over all workers. `processes` is
    the number of processes that recently used the rate, if known.
    """

    wait: float
    active_projects: int = 1
    reason: str = ""
    failures: int = 0
    processes: int | None = None


class Limiter(Protocol):
    """See `FleetLimiter`. `request_id` identifies the request that probes, if only one may."""

    def request_permit(self, project: str, request_id: str) -> Permit:
        """Whether the provider may be asked now."""
        ...

    def spend(self, project: str, tokens: int, active_projects: int, *, force: bool = False) -> bool:
        """Charge one request of `tokens` to the rate if it and the project's share allow that, or with `force`."""
        ...

    def record_failure(self, request_id: str, failure: retry.Failure) -> None:
        """Block the provider as long as it asks for, or as `retry.BLOCK_SECONDS` says after enough failures."""
        ...

    def record_end(self, request_id: str, *, answered: bool) -> None:
        """Let the next request probe; reset the failures if the provider answered."""
        ...


class SpentRate:
    """What is spent of a rate, in a `limits` storage."""

    def __init__(self, storage: Storage, name: str, rate: Rate) -> None:
        self._name = name
        self._exact = MovingWindowRateLimiter(storage)
        self._counted = SlidingWindowCounterRateLimiter(storage)
        self._requests = _item(rate.requests, rate.window, "requests")
        self._tokens = _item(rate.tokens, rate.window, "tokens")

    def spend(self, project: str, tokens: int, active_projects: int, *, force: bool) -> bool:
        """See `Limiter`. A request larger than the whole rate takes all of it."""
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
        """The requests and tokens that may be spent at once; None is unlimited."""
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


_ASK = """
local asking, blocked, failures, probe, sharing = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
if ARGV[1] ~= '' then
    redis.call('ZADD', asking, now, ARGV[1])
    redis.call('ZADD', sharing, now, ARGV[6])
end
redis.call('ZREMRANGEBYSCORE', sharing, '-inf', now - tonumber(ARGV[7]))
redis.call('EXPIRE', sharing, 600)
local processes = redis.call('ZCARD', sharing)
redis.call('ZREMRANGEBYSCORE', asking, '-inf', now - tonumber(ARGV[3]))
redis.call('EXPIRE', asking, 60)
local active = redis.call('ZCARD', asking)
local left = redis.call('PTTL', blocked)
local count = tonumber(redis.call('GET', failures) or '0')
if left > 0 then return {left, active, redis.call('GET', blocked), count, processes} end
if count >= tonumber(ARGV[4]) and redis.call('GET', probe) ~= ARGV[2]
    and not redis.call('SET', probe, ARGV[2], 'NX', 'PX', ARGV[5]) then
    return {-1, active, '', count, processes}
end
return {0, active, '', count, processes}
"""

_FAILED = """
local blocked, failures, probe = KEYS[2], KEYS[3], KEYS[4]
local left = redis.call('PTTL', blocked)
local wait = tonumber(ARGV[2])
if redis.call('GET', probe) == ARGV[1] then redis.call('DEL', probe) end
-- what fails while nobody may ask was begun before, and tells nothing new
if left <= 0 then
    local count = redis.call('INCR', failures)
    redis.call('EXPIRE', failures, ARGV[5])
    if wait == 0 and count >= tonumber(ARGV[3]) then
        wait = 1000 * tonumber(ARGV[6 + math.min(count - tonumber(ARGV[3]), #ARGV - 6)])
    end
end
if wait > left and wait > 0 then redis.call('SET', blocked, ARGV[4], 'PX', math.ceil(wait)) end
"""

_ENDED = """
if redis.call('GET', KEYS[4]) == ARGV[1] then redis.call('DEL', KEYS[4]) end
if ARGV[2] == '1' then redis.call('DEL', KEYS[3]) end
"""


def open_redis(url: str) -> Redis:
    """Connections to Redis that give up soon."""
    # One retry for a connection that a restart of the server broke, and none for a server that does not answer.
    reconnect = Retry(NoBackoff(), 1, supported_errors=(LostConnection,))
    return Redis.from_url(url, socket_timeout=2, socket_connect_timeout=1, retry=reconnect)


def storage_in(redis: Redis) -> RedisStorage:
    """Where the fleet counts what is spent."""
    return RedisStorage("redis://", redis.connection_pool, key_prefix="foldex:rate")


def keys_of(name: str) -> list[str]:
    """The keys of a budget in Redis."""
    return [f"foldex:{{{name}}}:{part}" for part in ("asking", "blocked", "failures", "probe", "sharing")]


class FleetLimiter:
    """The limiter of the whole fleet. Every method raises `RedisError` if Redis does not answer."""

    def __init__(self, url: str, name: str, rate: Rate) -> None:
        redis = open_redis(url)
        self._spent = SpentRate(storage_in(redis), name, rate)
        self._keys = keys_of(name)
        self._process_id = uuid4().hex
        self._ask, self._record_failure, self._record_end = map(redis.register_script, (_ASK, _FAILED, _ENDED))

    def request_permit(self, project: str, request_id: str) -> Permit:
        """See `Limiter`."""
        breaker = retry.FAILURES_TO_BLOCK, _ms(retry.PROBE_SECONDS)
        values = project, request_id, ACTIVE_SECONDS, *breaker, self._process_id, SHARING_SECONDS
        remaining_ms, active, reason, failures, processes = self._run(self._ask, *values)
        permit = _permit(
            remaining_ms / 1000 if remaining_ms > 0 else remaining_ms,
            int(active),
            bytes(reason).decode(),
            int(failures),
        )
        return replace(permit, processes=int(processes))

    def spend(self, project: str, tokens: int, active_projects: int, *, force: bool = False) -> bool:
        """See `Limiter`."""
        return self._spent.spend(project, tokens, active_projects, force=force)

    def record_failure(self, request_id: str, failure: retry.Failure) -> None:
        """See `Limiter`."""
        wait, blocks = _ms(failure.retry_after), retry.BLOCK_SECONDS
        values = wait, failure.failures_to_block, failure.reason, retry.FAILURE_MEMORY_SECONDS, *blocks
        self._run(self._record_failure, request_id, *values)

    def record_end(self, request_id: str, *, answered: bool) -> None:
        """See `Limiter`."""
        self._run(self._record_end, request_id, int(answered))

    def _run(self, script: Any, *values: str | float) -> Any:
        return script(keys=self._keys, args=values)


@dataclass(frozen=True, slots=True)
class _Cost:
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
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _costs: list[_Cost] = field(default_factory=list)

    def request_permit(self, project: str, request_id: str) -> Permit:
        """See `Limiter`."""
        with self._lock:
            now = self.now()
            self._asked_at = {name: time_ for name, time_ in self._asked_at.items() if time_ > now - ACTIVE_SECONDS}
            if project:
                self._asked_at[project] = now
            active = len(self._asked_at)
            if self._blocked_until > now:
                return _permit(self._blocked_until - now, active, self._reason, self._failures)
            if self._failures >= retry.FAILURES_TO_BLOCK:
                if self._probe and self._probe[0] != request_id and self._probe[1] > now:
                    return _permit(-1, active, "", self._failures)
                self._probe = request_id, now + retry.PROBE_SECONDS
            return Permit(0, active, failures=self._failures)

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
                self._costs.append(_Cost(kind, project, amount, now + self.rate.window * windows))
            return True

    def _fits(self, kind: str, part: float, amount: int, project: str, active_projects: int) -> bool:
        """Whether an amount fits into this process's part of a limit, and into the project's share of that part.

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
                self._failures = 0

    def _end_probe(self, request_id: str) -> None:
        if self._probe and self._probe[0] == request_id:
            self._probe = None


def _permit(wait: float, active_projects: int, reason: str, failures: int) -> Permit:
    """A permit; `wait` is negative while another request probes the provider."""
    if wait < 0:
        return Permit(retry.probe_poll_seconds(), active_projects, failures=failures)
    return Permit(wait and retry.spread(wait), active_projects, reason, failures)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
