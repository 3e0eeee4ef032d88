"""Measures what a task of many files costs in single transactions: counts, a cancel, and what the cancel leaves.

`FILES=1000000` measures other numbers than the usual ones.
"""

from __future__ import annotations

import os
from pathlib import Path

from api.stack.postgres import postgres
from tests.bench.size.rows import TASKS, fill, rows, spending
from worker.state.index import counting, leftovers, tasks
from worker.state.index.index_switch import lock_index
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool

NUMBERS = (10_000, 150_000)
#: Every file has live content, and waits to be read again.
LIVE = "UPDATE search_index_file SET live_fingerprint = 'f', live_chunks = 1, status = 'pending'"
NOTED = """
INSERT INTO search_index_task_delta (task_id, total, indexed, skipped, failed, removed, chunks, embedded, reused,
    tokens, total_bytes, done_bytes, removing)
SELECT id, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM search_index_task
"""


def run(place: Path) -> None:
    for number in [int(number) for number in os.environ.get("FILES", "").split()] or NUMBERS:
        with postgres(place / str(number)) as url:
            migrate(url)
            with open_pool(url) as pool:
                fill(url, TASKS, tasks=1, files=number)
                fill(url, LIVE)
                print(f"{number} files of one task:")
                _count(pool)
                _cancel(pool)


def _count(pool: Pool) -> None:
    ((task_id,),) = rows(pool, "SELECT id FROM search_index_task")
    with spending(pool) as spent, pool.connection() as connection:
        counting.count(connection, [task_id])
    print(f"    counted: {spent}", flush=True)
    rows(pool, NOTED)
    with spending(pool) as spent, pool.connection() as connection:
        counting.add_noted(connection, [task_id])
    print(f"    counted by what workers noted: {spent}", flush=True)


def _cancel(pool: Pool) -> None:
    ((index_id,),) = rows(pool, "SELECT index_id FROM search_index_task")
    with spending(pool) as spent, pool.connection() as connection:
        lock_index(connection, index_id)
        tasks.cancel(connection, index_id)
    print(f"    cancelled: {spent}", flush=True)
    with spending(pool) as spent:
        steps = leftovers.tidy(pool, 3600)
    print(f"    tidied in {steps} transactions: {spent}", flush=True)
