"""Connections from the pool: usable after a migration or an end by Postgres, and in transactions after a read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from schemas.errors import ProjectBusy
from tests.service import eventually
from worker.machine.sharing.owner import working_for
from worker.state.connections import BRIEF, REQUEST, SWEEP, WORK, ConnectionLimits
from worker.state.pool import Pool, autocommit, open_pool

PID = b"SELECT pg_backend_pid()"
#: Like the API's limits, but a lock is waited for as long as the test takes.
HELD = replace(REQUEST, answer=60.0, lock=60.0, pool=30.0)
LOCK = "SELECT pg_advisory_xact_lock(77)"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


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


def test_calls_of_one_project_that_wait_in_postgres_leave_connections_to_another(database_url: str) -> None:
    with (
        open_pool(database_url, max_size=20, limits=HELD) as pool,
        ThreadPoolExecutor(40) as threads,
        psycopg.connect(database_url) as holder,
    ):
        holder.execute(LOCK)
        calls = [threads.submit(locked_by, pool, "a") for _ in range(40)]
        try:
            eventually(lambda: waiting(database_url) >= 13, 30)
            with working_for("b"), pool.connection(5) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
            # beside another project the first one takes no more
            assert waiting(database_url) == 13
            with pytest.raises(ProjectBusy), working_for("a"), pool.connection(0.2):
                pass
            assert not any(call.done() for call in calls)
        finally:
            holder.rollback()
        assert [call.result() for call in calls] == ["a"] * 40
        with working_for("a"), pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def locked_by(pool: Pool, project: str) -> str:
    with working_for(project), pool.connection() as connection:
        connection.execute(LOCK)
    return project


def waiting(database_url: str) -> int:
    with psycopg.connect(database_url, autocommit=True) as connection:
        ((number,),) = connection.execute(WAITING).fetchall()
    return int(number)


def test_a_process_of_one_owner_uses_the_whole_pool(database_url: str) -> None:
    with open_pool(database_url, max_size=2) as pool, pool.connection(), pool.connection() as second:
        assert second.execute("SELECT 1").fetchone() == (1,)


Read = Callable[[Pool, str], list[tuple[Any, ...]]]


def alone(pool: Pool, query: str) -> list[tuple[Any, ...]]:
    with autocommit(pool) as connection:
        return connection.execute(query.encode()).fetchall()


def first(pool: Pool, query: str) -> list[tuple[Any, ...]]:
    with pool.connection() as connection:
        found = connection.execute(query.encode()).fetchall()
        # the transaction goes on
        connection.execute("INSERT INTO noted VALUES (1)")
        return found


def later(pool: Pool, query: str) -> list[tuple[Any, ...]]:
    with pool.connection() as connection:
        connection.execute("INSERT INTO noted VALUES (1)")
        return connection.execute(query.encode()).fetchall()


def nested(pool: Pool, query: str) -> list[tuple[Any, ...]]:
    with pool.connection() as connection, connection.transaction():
        connection.execute("INSERT INTO noted VALUES (1)")
        return connection.cursor(binary=True, row_factory=tuple_row).execute(query.encode()).fetchall()


@pytest.mark.parametrize("limits", [REQUEST, SWEEP, WORK, BRIEF])
@pytest.mark.parametrize("read", [alone, first, later, nested])
def test_a_migration_breaks_no_statement_that_is_prepared(
    database_url: str, limits: ConnectionLimits, read: Read
) -> None:
    with open_pool(database_url, max_size=1, limits=limits) as pool, psycopg.connect(database_url) as admin:
        admin.autocommit = True
        admin.execute("DROP TABLE IF EXISTS kept, noted")
        admin.execute("CREATE TABLE kept (n integer); INSERT INTO kept VALUES (1); CREATE TABLE noted (n integer)")
        rounds = 0
        for change, rows in (
            ("SELECT", [(1,)]),
            ("ALTER TABLE kept ALTER n TYPE bigint", [(1,)]),
            ("ALTER TABLE kept ADD COLUMN text text DEFAULT 'x'", [(1, "x")]),
            ("ALTER TABLE kept ALTER n TYPE text", [("1", "x")]),
            ("ALTER TABLE kept DROP COLUMN text", [("1",)]),
        ):
            admin.execute(change.encode())
            # often enough that the statement is prepared
            for _ in range(8):
                assert read(pool, "SELECT * FROM kept") == rows
                rounds += 1
        noted = admin.execute("SELECT count(*) FROM noted").fetchone()
        assert noted == (0 if read is alone else rounds,)


def test_what_postgres_does_not_support_is_still_an_error(database_url: str) -> None:
    with open_pool(database_url, max_size=1, limits=REQUEST) as pool:
        for _ in range(8):
            with pytest.raises(psycopg.errors.FeatureNotSupported), autocommit(pool) as connection:
                connection.execute("SELECT count(DISTINCT 1) OVER ()")
        assert alone(pool, "SELECT 1") == [(1,)]
