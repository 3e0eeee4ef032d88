"""Connections from the pool: usable after Postgres ended them, and back in their transactions after a read."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from worker.state.pool import autocommit, open_pool

PID = b"SELECT pg_backend_pid()"


def test_a_connection_that_the_server_ended_is_not_lent(database_url: str) -> None:
    with open_pool(database_url, max_size=1) as pool:
        with autocommit(pool) as connection:
            (before,) = connection.execute(PID).fetchone() or (0,)
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [before])
        with pool.connection() as connection:
            (after,) = connection.execute(PID).fetchone() or (0,)
    assert after != before


def test_a_read_needs_no_transaction_and_leaves_none_out(database_url: str) -> None:
    with open_pool(database_url, max_size=1) as pool:
        with autocommit(pool) as connection:
            connection.execute(PID)
            assert connection.info.transaction_status is TransactionStatus.IDLE
        with pool.connection() as connection:
            connection.execute(PID)
            assert connection.info.transaction_status is TransactionStatus.INTRANS


def test_a_failed_read_leaves_a_sound_connection(database_url: str) -> None:
    with open_pool(database_url, max_size=1) as pool:
        with pytest.raises(psycopg.errors.DivisionByZero), autocommit(pool) as connection:
            connection.execute("SELECT 1 / 0")
        with pool.connection() as connection:
            assert not connection.autocommit
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_connection_that_ends_during_a_read_is_told_as_that(database_url: str) -> None:
    with open_pool(database_url, max_size=1) as pool:
        with pytest.raises(psycopg.OperationalError), autocommit(pool) as connection:
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
