"""What workers jointly know about a provider: which projects ask, what was spent, and whether to stop asking.

Two ledgers do the same. `Shared` keeps its data in Redis for the whole fleet and uses the clock of Redis. `Alone` works
within one process while Redis is away. In Redis, `limits` counts what is spent. Requests use a moving window, which is
exact. Tokens, of which one request has many, use a sliding window of two counters. A process without Redis takes an
equal part of the budget: it divides by the number of processes that shared the ledger at its last contact with Redis.
"""

from __future__ import annotations

import random
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

#: Consecutive failures, over all workers, after which only one request at a time probes the provider.
OPEN_AFTER = 5
#: Maximum number of seconds for which requests to a failing provider are blocked.
LONGEST_BLOCK = 60.0
#: Seconds for which a project counts as active after it asked.
ACTIVE = 5.0
#: Seconds for which a process counts as sharing the budget after it asked.
SHARING = 60.0
#: Seconds until another request may probe if the probing one does not return: a request's time-out and some margin.
PROBE = 70.0
#: Seconds over which requests that waited for the same moment are spread.
SPREAD = 0.5
#: Seconds until a request that was held back asks again.
POLL = 0.25
#: Seconds after which consecutive failures are forgotten.
MEMORY = 600.0


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
class Leave:
    """The answer to `Ledger.ask`: seconds to wait (0 if the request may go out) and the reason.

    `active` projects are asking at the moment. `failures` counts consecutive failures over all workers. `sharing` is
    the number of processes that recently used the budget, if known.
    """

    wait: float
    active: int = 1
    reason: str = ""
    failures: int = 0
    sharing: int | None = None


class Ledger(Protocol):
    """See `Shared`."""

    def ask(self, project: str, token: str) -> Leave:
        """Whether the provider may be asked now. `token` identifies the request that probes, if only one may."""
        ...

    def spend(self, project: str, tokens: int, active: int, *, force: bool = False) -> bool:
        """Charge one request of `tokens` to the budget if it and the project's share allow that, or with `force`."""
        ...

    def failed(self, token: str, wait: float, after: int, reason: str) -> None:
        """Block the provider for `wait` seconds. If 0, block it after `after` failures, doubling the time each time."""
        ...

    def settled(self, token: str, *, alive: bool) -> None:
        """Let the next request probe; reset the failures if the provider is `alive`."""
        ...


class Spending:
    """The budget with one name, in a `limits` storage."""

    def __init__(self, storage: Storage, name: str, rate: Rate) -> None:
        self._name = name
        self._exact = MovingWindowRateLimiter(storage)
        self._counted = SlidingWindowCounterRateLimiter(storage)
        self._requests = _item(rate.requests, rate.window, "requests")
        self._tokens = _item(rate.tokens, rate.window, "tokens")

    def spend(self, project: str, tokens: int, active: int, *, force: bool) -> bool:
        """See `Ledger`. A request larger than the whole budget takes all of it."""
        costs = [(item, cost) for item, cost in ((self._requests, 1), (self._tokens, tokens)) if item is not None]
        costs = [(item, min(cost, item.amount)) for item, cost in costs]
        if not force and not all(self._fits(item, cost, project, active) for item, cost in costs):
            return False
        if self._requests is not None and not self._exact.hit(self._requests, self._name) and not force:
            return False
        for item, cost in costs:
            if item is self._tokens:
                self._counted.hit(item, self._name, cost=cost)
            self._counted.hit(item, self._name, project, cost=cost)
        return True

    def _fits(self, item: RateLimitItem, cost: int, project: str, active: int) -> bool:
        if item is self._tokens and not self._counted.test(item, self._name, cost=cost):
            return False
        if active <= 1:
            return True
        spent = item.amount - self._counted.get_window_stats(item, self._name, project).remaining
        return spent == 0 or spent + cost <= item.amount / active


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
    redis.call('PEXPIRE', failures, ARGV[6])
    if wait == 0 and count >= tonumber(ARGV[3]) then
        wait = math.min(tonumber(ARGV[4]), 1000 * 2 ^ math.min(count - tonumber(ARGV[3]), 20))
    end
end
if wait > left and wait > 0 then redis.call('SET', blocked, ARGV[5], 'PX', math.ceil(wait)) end
"""

_SETTLED = """
if redis.call('GET', KEYS[4]) == ARGV[1] then redis.call('DEL', KEYS[4]) end
if ARGV[2] == '1' then redis.call('DEL', KEYS[3]) end
"""


class Shared:
    """The ledger of the whole fleet. Every method raises `RedisError` if Redis does not answer."""

    def __init__(self, url: str, name: str, rate: Rate) -> None:
        # One retry for a connection that a restart of the server broke, and none for a server that does not answer.
        retry = Retry(NoBackoff(), 1, supported_errors=(LostConnection,))
        redis = Redis.from_url(url, socket_timeout=2, socket_connect_timeout=1, retry=retry)
        self._spending = Spending(RedisStorage("redis://", redis.connection_pool, key_prefix="foldex:rate"), name, rate)
        self._keys = [f"foldex:{{{name}}}:{part}" for part in ("asking", "blocked", "failures", "probe", "sharing")]
        self._process = uuid4().hex
        self._ask, self._failed, self._settled = map(redis.register_script, (_ASK, _FAILED, _SETTLED))

    def ask(self, project: str, token: str) -> Leave:
        """See `Ledger`."""
        asked = (project, token, ACTIVE, OPEN_AFTER, _ms(PROBE), self._process, SHARING)
        left, active, reason, failures, sharing = self._call(self._ask, *asked)
        leave = _leave(left / 1000 if left > 0 else left, int(active), bytes(reason).decode(), int(failures))
        return replace(leave, sharing=int(sharing))

    def spend(self, project: str, tokens: int, active: int, *, force: bool = False) -> bool:
        """See `Ledger`."""
        return self._spending.spend(project, tokens, active, force=force)

    def failed(self, token: str, wait: float, after: int, reason: str) -> None:
        """See `Ledger`."""
        self._call(self._failed, token, _ms(wait), after, _ms(LONGEST_BLOCK), reason, _ms(MEMORY))

    def settled(self, token: str, *, alive: bool) -> None:
        """See `Ledger`."""
        self._call(self._settled, token, int(alive))

    def _call(self, script: Any, *values: str | float) -> Any:
        return script(keys=self._keys, args=values)


@dataclass(frozen=True, slots=True)
class _Spent:
    """An amount that counts against a limit until a given time."""

    kind: str
    project: str
    cost: int
    until: float


@dataclass
class Alone:
    """The ledger of one process, for its part of a budget that `sharing` processes share. Thread-safe."""

    name: str
    rate: Rate
    now: Callable[[], float] = time.monotonic
    sharing: int = 1
    _asking: dict[str, float] = field(default_factory=dict)
    _failures: int = 0
    _blocked_until: float = 0.0
    _reason: str = ""
    _probe: tuple[str, float] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spent: list[_Spent] = field(default_factory=list)

    def ask(self, project: str, token: str) -> Leave:
        """See `Ledger`."""
        with self._lock:
            now = self.now()
            self._asking = {name: at for name, at in self._asking.items() if at > now - ACTIVE}
            if project:
                self._asking[project] = now
            if self._blocked_until > now:
                return _leave(self._blocked_until - now, len(self._asking), self._reason, self._failures)
            if self._failures >= OPEN_AFTER:
                if self._probe and self._probe[0] != token and self._probe[1] > now:
                    return _leave(-1, len(self._asking), "", self._failures)
                self._probe = token, now + PROBE
            return Leave(0, len(self._asking), failures=self._failures)

    def spend(self, project: str, tokens: int, active: int, *, force: bool = False) -> bool:
        """See `Ledger`."""
        with self._lock:
            now = self.now()
            self._spent = [spent for spent in self._spent if spent.until > now]
            costs = [(kind, limit, cost) for kind, limit, cost in self._limits(tokens) if limit is not None]
            if not force and not all(self._fits(kind, limit, cost, project, active) for kind, limit, cost in costs):
                return False
            for kind, limit, cost in costs:
                # A cost above this process's part blocks it for correspondingly many windows.
                windows = max(1.0, cost * self.sharing / limit)
                self._spent.append(_Spent(kind, project, cost, now + self.rate.window * windows))
            return True

    def _limits(self, tokens: int) -> list[tuple[str, int | None, int]]:
        return [("requests", self.rate.requests, 1), ("tokens", self.rate.tokens, tokens)]

    def _fits(self, kind: str, limit: int, cost: int, project: str, active: int) -> bool:
        """Whether a cost fits into this process's part of a limit, and into the project's share of that part.

        A cost larger than the part waits until nothing else is spent.
        """
        part = limit / self.sharing
        spent = [s for s in self._spent if s.kind == kind]
        total, own = sum(s.cost for s in spent), sum(s.cost for s in spent if s.project == project)
        if total and total + cost > part:
            return False
        return active <= 1 or not own or own + cost <= part / active

    def failed(self, token: str, wait: float, after: int, reason: str) -> None:
        """See `Ledger`."""
        with self._lock:
            now = self.now()
            self._release(token)
            if self._blocked_until <= now:
                self._failures += 1
                if not wait and self._failures >= after:
                    wait = min(LONGEST_BLOCK, 2.0 ** min(self._failures - after, 20))
            if now + wait > self._blocked_until and wait:
                self._blocked_until, self._reason = now + wait, reason

    def settled(self, token: str, *, alive: bool) -> None:
        """See `Ledger`."""
        with self._lock:
            self._release(token)
            if alive:
                self._failures = 0

    def _release(self, token: str) -> None:
        if self._probe and self._probe[0] == token:
            self._probe = None


def _leave(wait: float, active: int, reason: str, failures: int) -> Leave:
    if wait < 0:
        reason = "after failures in a row one request at a time tries whether it is back"
        return Leave(_scattered(POLL), active, reason, failures)
    spread = wait and wait + random.uniform(0, SPREAD)  # noqa: S311 - spreads waiting requests
    return Leave(spread, active, reason, failures)


def _scattered(seconds: float) -> float:
    return random.uniform(seconds, 2 * seconds)  # noqa: S311 - see above


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
