"""Reads what the fleet knows of its budgets, for those who only look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from redis import Redis

from worker.embed.circuit import ACTIVE_SECONDS, SharedRate, SpentRate, keys_of, open_redis, storage_in

_LOOK = """
local time = redis.call('TIME')
local since = tonumber(time[1]) + tonumber(time[2]) / 1000000 - tonumber(ARGV[1])
local reason = redis.call('GET', KEYS[2]) or ''
local failures = redis.call('GET', KEYS[3]) or '0'
return {redis.call('PTTL', KEYS[2]), reason, failures, redis.call('ZCOUNT', KEYS[1], '(' .. since, '+inf')}
"""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget now. Requests and tokens that are left are None if unlimited; `reason` is empty unless blocked."""

    requests_left: int | None
    tokens_left: int | None
    blocked_seconds: float
    reason: str
    failures: int
    active_projects: int


class FleetView:
    """What all processes have spent, and what they wait for. It opens one pool of connections, on first use."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _redis(self) -> Redis:
        return open_redis(self._url)

    def states(self, rates: Sequence[SharedRate]) -> list[BudgetState]:
        """The state of each budget. Raises `RedisError` if Redis does not answer."""
        look = self._redis.register_script(_LOOK)
        with self._redis.pipeline(transaction=False) as pipeline:
            for each in rates:
                look(keys=keys_of(each.name), args=[ACTIVE_SECONDS], client=pipeline)
            looked = pipeline.execute()
        storage = storage_in(self._redis)
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
