"""Writes many rows at once, as the service writes them one by one, and counts the processor time of what follows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil
import psycopg
from psycopg.sql import SQL

from worker.state.pool import Pool

#: One open task each, with files of which one waits.
TASKS = """
WITH made AS (
    INSERT INTO search_index (id, project_id, identity, source, settings, vector_store, keyword_index, namespace, epoch)
    SELECT gen_random_uuid(), 'project-' || n %% 100, 'i-' || n, '{"kind": "local", "path": "/nowhere"}',
        '{"embedder": {"model": "m", "dimensions": 4}}', 'lancedb', 'store', 'n-' || n, 1
    FROM generate_series(1, %(tasks)s) AS n RETURNING id
), tasks AS (
    INSERT INTO search_index_task (id, tool_id, index_id, kind, status, epoch, listing, created_at, started_at,
        moved_at)
    SELECT gen_random_uuid(), gen_random_uuid(), id, 'create', 'indexing', 1, false, now() - interval '1 min', now(),
        now()
    FROM made RETURNING id, index_id
)
INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version, status)
SELECT gen_random_uuid(), t.index_id, convert_to('f' || n, 'UTF8'), 'f' || n, '/f' || n, 100, t.id, 's', 'v',
    CASE WHEN n = 1 THEN 'pending' ELSE 'indexed' END
FROM tasks t, generate_series(1, %(files)s) AS n
"""

#: Ready indexes of one file each, ten in a project.
INDEXES = """
WITH made AS (
    INSERT INTO search_index (id, project_id, identity, source, settings, vector_store, keyword_index, namespace, epoch)
    SELECT gen_random_uuid(), 'project-' || n / 10, 'i-' || n, '{"kind": "local", "path": "/nowhere"}',
        '{"embedder": {"model": "m", "dimensions": 4, "precision": "float32"}}', 'lancedb', 'postgres', 'n-' || n, 1
    FROM generate_series(1, %(indexes)s) AS n RETURNING id
)
INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version, status,
    live_chunks)
SELECT gen_random_uuid(), id, 'f', 'f', '/f', 100, id, 's', 'v', 'indexed', 10000 FROM made
"""


def fill(url: str, query: str, **values: object) -> None:
    """Write rows, and bring the statistics up to date. Both may take longer than a connection of the pool waits."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(query.encode(), values)
        connection.execute("VACUUM ANALYZE")


def rows(pool: Pool, query: str, **values: object) -> list[tuple[Any, ...]]:
    with pool.connection() as connection:
        cursor = connection.execute(SQL(query), values)
        return cursor.fetchall() if cursor.description else []


@dataclass
class Spent:
    """Seconds on the clock, and of processor time in this process and in all of Postgres."""

    seconds: float = 0.0
    processor: float = 0.0

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s, {self.processor:.3f} s of processor"


@contextmanager
def spending(pool: Pool) -> Iterator[Spent]:
    ((pid,),) = rows(pool, "SELECT pg_backend_pid()")
    server = psutil.Process(pid).parent()
    assert server is not None
    spent, began, used = Spent(), time.monotonic(), _processor(server)
    yield spent
    spent.seconds, spent.processor = time.monotonic() - began, _processor(server) - used


def _processor(server: psutil.Process) -> float:
    own, mine = server.cpu_times(), time.process_time()
    ended = own.user + own.system + own.children_user + own.children_system
    alive = 0.0
    for child in server.children():
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile, and is counted next time
            alive += sum(child.cpu_times()[:2])
    return mine + ended + alive
