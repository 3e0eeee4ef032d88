"""Connections from the pool: usable after Postgres ended them, and back in their transactions after a read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from schemas.errors import ProjectBusy
from tests.service import eventually
from worker.machine.owner import working_for
from worker.state.connections import REQUEST
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
