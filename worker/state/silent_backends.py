"""Server processes that work for our own connections, and those among them whose client fell silent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg import Connection

from worker.state.postgres import APPLICATION, IDLE, Pool, load, reading

_SQL = load("silent_backends")


def reap(pool: Pool, silence: timedelta = timedelta(seconds=IDLE)) -> list[int]:
    """End connections whose client neither sent nor took anything for so long in the middle of a statement.

    Postgres lets them wait for ever, with all locks of their transactions, and heeds no limit of time there. What is
    seen is kept in a table, so that any process may go on with it. In autocommit: a sweep that is stopped itself
    holds none of its rows.
    """
    with reading(pool) as connection:
        rows = connection.execute(_SQL["reap"], {"application": APPLICATION, "silence": silence}).fetchall()
        return [pid for (pid,) in rows]


def take_time(connection: Connection[Any]) -> None:
    """Let a transaction do nothing for longer: it locks nothing that others want, and its reader works between rows."""
    connection.execute(_SQL["take_time"])
