"""Measures what open tasks cost that no worker serves: a round of the sweep, and the choice of a worker's next task."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
from redis import Redis

from api.stack.postgres import postgres
from api.stack.redis import redis
from tests.bench.size.rows import TASKS, fill, spending
from worker.app import app
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import turns
from worker.state.migrate import migrate
from worker.upkeep.sweep import sweep

NUMBERS = (10, 100, 1_000, 3_000, 10_000)
FILES = 10
ROUNDS = 4


def run(place: Path) -> None:
    with redis(place) as address, Redis.from_url(address) as broker:
        app.conf.update(broker_url=address, broker_read_url=address, broker_write_url=address)
        for number in NUMBERS:
            broker.flushdb()
            with postgres(place / str(number)) as url:
                _measure(number, url, place, broker)


def _measure(number: int, url: str, place: Path, broker: Redis) -> None:
    migrate(url)
    resources = Resources(Settings(database_url=url, foldex_home=place, vector_store="lancedb")).sweeping
    fill(url, TASKS, tasks=number, files=FILES)
    print(f"{number} open tasks, rounds of the sweep:")
    for _ in range(ROUNDS):
        with spending(resources.pool) as spent:
            done = _sweep(resources)
        print(f"    {spent}; {done}", flush=True)
        time.sleep(1)
    with spending(resources.pool) as spent:
        assert turns.fairest(resources.pool)
    messages = ", ".join(f"{broker.llen(queue)} in {queue}" for queue in ("fast", "bulk"))
    print(f"    choice of a task: {spent}; messages: {messages}", flush=True)
    resources.pool.close()


def _sweep(resources: Resources) -> str:
    try:
        done = sweep(resources)
    except psycopg.OperationalError:
        return "took longer than its lock lasts"
    return ", ".join(f"{name} {value}" for name, value in done.items() if value) or "nothing to do"
