"""Statements that tests run by themselves, and counts of the rows that Postgres has read in some tables."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from worker.state.pool import Pool

_READ = """
SELECT coalesce(sum(seq_tup_read), 0)::int, coalesce(sum(idx_tup_fetch), 0)::int FROM pg_stat_user_tables
WHERE relname = ANY (%s)
"""

_BLOCKS = "SELECT (idx_blks_read + idx_blks_hit)::int FROM pg_statio_user_indexes WHERE indexrelname = %s"

_SOME_NODES = """
INSERT INTO content_node (project_id, id, id_path, name, type)
SELECT 'known', 'n' || n, '/n' || n, n, 'text' FROM generate_series(1, 1000) n ON CONFLICT DO NOTHING
"""


def know_nodes(pool: Pool) -> None:
    """Let Postgres know that nodes are many: for few, it plans to read all of a project to find the parent of one."""
    with pool.connection() as connection:
        connection.execute(_SOME_NODES)
        connection.execute("ANALYZE content_node")


def do(pool: Pool, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement in a transaction of its own. Returns its rows, if it has any."""
    with pool.connection() as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def rows_scanned(pool: Pool, *tables: str) -> int:
    """The rows that scans of whole tables have read so far."""
    return _rows(pool, tables)[0]


def rows_read(pool: Pool, *tables: str) -> int:
    """The rows that any scan has read so far, of whole tables or of an index."""
    return sum(_rows(pool, tables))


def blocks_read(pool: Pool, index: str) -> int:
    """The blocks of an index that were read so far. A scan also passes over entries of which it reads no row."""
    _flush(pool)
    with pool.connection() as connection:
        ((blocks,),) = connection.execute(_BLOCKS, (index,)).fetchall()
    return int(blocks)


def _flush(pool: Pool) -> None:
    with ExitStack() as held:
        # each connection of the pool tells what it has read, also for earlier tests
        for _ in range(pool.get_stats()["pool_size"]):
            held.enter_context(pool.connection()).execute("SELECT pg_stat_force_next_flush()")


def _rows(pool: Pool, tables: tuple[str, ...]) -> tuple[int, int]:
    _flush(pool)
    with pool.connection() as connection:
        ((scanned, fetched),) = connection.execute(_READ, (list(tables),)).fetchall()
    return scanned, fetched
