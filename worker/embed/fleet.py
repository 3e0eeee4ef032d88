"""The state of a provider that all processes share in Redis: active projects, spent rate, and whether it is blocked.

Redis' clock is used. A process that loses Redis takes an equal part of the rate. It divides by the number of processes
that shared the rate at its last contact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

from limits.storage import RedisStorage
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.retry import Retry

from worker.embed import retry
from worker.embed.limiter import ACTIVE_SECONDS, Permit, permit_of
from worker.embed.rates import Rate, SharedRate, SpentRate
from worker.machine.named_texts import named_texts

#: Seconds for which a process counts as a user of the rate after its last request.
SHARING_SECONDS = 60
#: Seconds for which the fleet remembers the sizes of requests that a provider refused.
SIZES_SECONDS = 7 * 86_400

_SCRIPTS = named_texts("worker.embed", "fleet.lua")


def _open_redis(url: str) -> Redis:
    """Open connections to Redis with short timeouts."""
    # Retry once, for a connection that a server restart broke, but never for a server that does not answer.
    reconnect = Retry(NoBackoff(), 1, supported_errors=(LostConnection,))
    return Redis.from_url(url, socket_timeout=2, socket_connect_timeout=1, retry=reconnect)


def _storage_in(redis: Redis) -> RedisStorage:
    """Return the storage in which the fleet counts spent requests and tokens."""
    return RedisStorage("redis://", redis.connection_pool, key_prefix="foldex:rate")


def _keys_of(name: str) -> list[str]:
    """Return the keys of a budget in Redis."""
    return [
        f"foldex:{{{name}}}:{part}" for part in ("asking", "blocked", "failures", "probe", "sharing", "quota", "sizes")
    ]


class FleetLimiter:
    """The limiter of the whole fleet. Every method raises `RedisError` if Redis does not answer."""

    def __init__(self, url: str, name: str, rate: Rate) -> None:
        self._redis = redis = _open_redis(url)
        self._spent = SpentRate(_storage_in(redis), name, rate)
        self._keys = _keys_of(name)
        self._process_id = uuid4().hex
        self._ask, self._record_failure, self._record_end = (
            redis.register_script(_SCRIPTS[name]) for name in ("ask", "record_failure", "record_end")
        )

    def request_permit(self, project: str, request_id: str) -> Permit:
        """See `Limiter`."""
        breaker = retry.FAILURES_TO_BLOCK, _ms(retry.PROBE_SECONDS)
        values = project, request_id, ACTIVE_SECONDS, *breaker, self._process_id, SHARING_SECONDS
        remaining_ms, active, reason, failures, processes, has_no_quota, sizes = self._run(self._ask, *values)
        permit = permit_of(
            remaining_ms / 1000 if remaining_ms > 0 else remaining_ms,
            int(active),
            bytes(reason).decode(),
            int(failures),
        )
        return replace(
            permit, processes=int(processes), has_no_quota=bool(int(has_no_quota)), sizes=bytes(sizes).decode()
        )

    def spend(self, project: str, tokens: int, active_projects: int, *, force: bool = False) -> bool:
        """See `Limiter`."""
        return self._spent.spend(project, tokens, active_projects, force=force)

    def record_failure(self, request_id: str, failure: retry.Failure) -> None:
        """See `Limiter`."""
        wait, blocks = _ms(failure.retry_after), retry.BLOCK_SECONDS
        # without quota, only one request at a time is sent from now on
        failures = retry.FAILURES_TO_BLOCK if failure.has_no_quota else 0
        values = wait, failure.failures_to_block, failure.reason, retry.FAILURE_MEMORY_SECONDS, failures, *blocks
        self._run(self._record_failure, request_id, *values)

    def record_end(self, request_id: str, *, answered: bool) -> None:
        """See `Limiter`."""
        self._run(self._record_end, request_id, int(answered))

    def share_sizes(self, sizes: str) -> None:
        """See `Limiter`."""
        self._redis.set(self._keys[-1], sizes, ex=SIZES_SECONDS)

    def _run(self, script: Any, *values: str | float) -> Any:
        return script(keys=self._keys, args=values)


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The state of a budget now. Remaining requests and tokens are None if unlimited; `reason` is "" unless blocked."""

    requests_left: int | None
    tokens_left: int | None
    blocked_seconds: float
    reason: str
    failures: int
    active_projects: int


class FleetView:
    """The usage and waiting reasons of all processes. It opens one connection pool, on first use."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _redis(self) -> Redis:
        return _open_redis(self._url)

    def states(self, rates: Sequence[SharedRate]) -> list[BudgetState]:
        """Return the state of each budget. Raises `RedisError` if Redis does not answer."""
        look = self._redis.register_script(_SCRIPTS["look"])
        with self._redis.pipeline(transaction=False) as pipeline:
            for each in rates:
                look(keys=_keys_of(each.name), args=[ACTIVE_SECONDS], client=pipeline)
            looked = pipeline.execute()
        storage = _storage_in(self._redis)
        return [
            BudgetState(
                *SpentRate(storage, each.name, each.rate).left(),
                max(0.0, remaining_ms / 1000),
                bytes(reason).decode(),
                int(failures),
                int(active),
            )
            for each, (remaining_ms, reason, failures, active) in zip(rates, looked, strict=True)
        ]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
