"""Server processes behind our own connections, and those of them whose client fell silent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg import Connection

from worker.state.connections import APPLICATION, IDLE_SECONDS
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

_SQL = load("silent_backends")


def reap(pool: Pool, silence: timedelta = timedelta(seconds=IDLE_SECONDS)) -> list[int]:
    """End connections whose client neither sent nor read anything for `silence` in the middle of a statement.

    Postgres lets them wait forever with all locks of their transactions, and applies no time limit there. Observations
    are kept in a table, so that any process can continue. Runs in autocommit: a sweep that is stopped itself holds no
    rows.
    """
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["reap"], {"application": APPLICATION, "silence": silence}).fetchall()
        return [pid for (pid,) in rows]


def take_time(connection: Connection[Any]) -> None:
    """Let a transaction stay idle for longer: it holds no locks that others need, and its reader works between rows."""
    connection.execute(_SQL["take_time"])
