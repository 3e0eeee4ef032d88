"""Sessions that hold up others: the service's own are ended, those of others are named."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.errors import LockNotAvailable

from api.main import create_app
from schemas.errors import Locked
from tests.integration.database import do
from tests.integration.test_leases import claimed, index_of, new_task
from tests.integration.test_locks import is_waiting
from tests.service import eventually
from worker.settings import Settings
from worker.state import silent_backends
from worker.state.connections import EXPENDABLE, REQUEST, WORK, Application
from worker.state.index import files, index_switch, messages, statuses, tasks, tool_actions, tools, turns
from worker.state.pool import Pool, open_pool

AT_ONCE, SOON = timedelta(0), timedelta(seconds=0.5)
LOCK = "SELECT FROM search_index_task WHERE id = '{}' FOR UPDATE"
#: Names of other sessions, some of which look like ours.
OTHERS = ("psql", "foldex", "pg_dump", "", "foldex migrate", "foldex cli", "foldex watch", "foldex workers")


@contextmanager
def session(url: str, application: str, statement: str) -> Iterator[psycopg.Connection[Any]]:
    """A session that is idle in a transaction."""
    opened = psycopg.connect(url, application_name=application)
    try:
        opened.execute(statement.encode())
        yield opened
    finally:
        # the server may notice a closed connection later
        with suppress(psycopg.OperationalError):
            opened.rollback()
        opened.close()


def pid(opened: psycopg.Connection[Any]) -> int:
    return opened.info.backend_pid


@pytest.mark.parametrize("application", [*EXPENDABLE, *OTHERS])
def test_of_sessions_that_hold_up_others_only_those_of_api_and_workers_end(
    pool: Pool, database_url: str, application: str
) -> None:
    lock = LOCK.format(new_task(pool))
    with session(database_url, application, lock) as holder, ThreadPoolExecutor(1) as thread:
        # nobody waits for it yet
        assert silent_backends.end_blocking(pool, AT_ONCE, AT_ONCE) == []
        assert silent_backends.end_blocking(pool, AT_ONCE, AT_ONCE) == []
        waiting = thread.submit(do, pool, lock)
        eventually(lambda: is_waiting(pool), 20)
        assert silent_backends.end_blocking(pool, timedelta(minutes=1), AT_ONCE) == []
        # too busy to be silent
        assert silent_backends.end_blocking(pool, AT_ONCE, timedelta(minutes=1)) == []
        ended: list[int] = []

        def is_ended() -> bool:
            ended.extend(silent_backends.end_blocking(pool, AT_ONCE, AT_ONCE))
            return bool(ended) or waiting.done()

        eventually(is_ended, 20)
        if application in EXPENDABLE:
            assert (ended, waiting.result(20)) == ([pid(holder)], [])
        else:
            assert ended == []
            holder.rollback()
            waiting.exception(20)


def test_who_holds_up_others_is_named_with_the_remedy(pool: Pool, database_url: str) -> None:
    lock = LOCK.format(new_task(pool))
    assert silent_backends.blockers(pool, AT_ONCE) == []
    with session(database_url, "psql", lock) as holder, ThreadPoolExecutor(1) as thread:
        (found,) = silent_backends.blockers(pool, AT_ONCE)
        assert (found.pid, found.application, found.tables, found.waiting) == (
            *(pid(holder), "psql", "search_index_task", 0),
        )
        assert silent_backends.blockers(pool, timedelta(minutes=1)) == []
        waiting = thread.submit(do, pool, lock)
        eventually(lambda: silent_backends.blockers(pool, AT_ONCE)[0].waiting == 1, 20)
        told = str(silent_backends.blockers(pool, AT_ONCE)[0])
        assert f"process {pid(holder)} (psql)" in told
        assert f"SELECT pg_terminate_backend({pid(holder)})" in told
        holder.rollback()
        waiting.result(20)
    assert silent_backends.blockers(pool, AT_ONCE) == []


def test_readiness_names_who_holds_up_others(pool: Pool, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent_backends, "blockers", lambda given: blockers(given, AT_ONCE))
    client = TestClient(create_app(Settings(database_url=database_url)))
    assert client.get("/readyz").json() == {"status": "ready"}
    with session(database_url, "psql", LOCK.format(new_task(pool))) as holder:
        assert f"pg_terminate_backend({pid(holder)})" in client.get("/readyz").json()["warning"]


blockers = silent_backends.blockers


def test_a_whole_table_is_named_too(pool: Pool, database_url: str) -> None:
    with session(database_url, "backup", "LOCK TABLE chunk IN ACCESS EXCLUSIVE MODE"):
        assert [found.tables for found in silent_backends.blockers(pool, AT_ONCE)] == ["chunk"]


def test_who_only_reads_is_not_named(pool: Pool, database_url: str) -> None:
    with session(database_url, "pg_dump", "SELECT count(*) FROM chunk"):
        assert silent_backends.blockers(pool, AT_ONCE) == []


def test_a_cancel_stops_the_work_although_the_row_of_the_task_is_held(pool: Pool, database_url: str) -> None:
    task = new_task(pool)
    ((tool,),) = do(pool, "SELECT tool_id FROM search_index_task WHERE id = %s", task)
    claimed(pool, task, uuid4(), 1)
    with session(database_url, "psql", LOCK.format(task)) as holder:
        tool_actions.cancel(pool, tool)
        assert tasks.running(pool, task) is None
        shown = statuses.newest_of_tool(pool, tool)
        assert shown is not None
        assert (shown.status, shown.finished_at is None) == ("cancelled", False)
        assert tools.get(pool, tool).task == "cancelled"  # type: ignore[union-attr] # the tool exists
        assert claimed(pool, task, uuid4()) == set()
        assert index_switch.stopping(pool, 9) == [(task, index_of(pool, task))]
        assert not tool_actions.end_stopped(pool, *index_switch.stopping(pool, 9)[0])
        holder.rollback()
    assert tool_actions.end_stopped(pool, *index_switch.stopping(pool, 9)[0])
    assert do(pool, "SELECT status FROM search_index_task WHERE id = %s", task) == [("cancelled",)]
    assert index_switch.stopping(pool, 9) == []


def test_what_is_asked_for_after_such_a_cancel_is_not_cancelled(pool: Pool, database_url: str) -> None:
    task = new_task(pool)
    ((tool,),) = do(pool, "SELECT tool_id FROM search_index_task WHERE id = %s", task)
    with session(database_url, "psql", LOCK.format(task)) as holder:
        tool_actions.cancel(pool, tool)
        holder.rollback()
    asked = tool_actions.reindex(pool, tool, full=False, allow_removals=False)
    assert asked not in {None, task}
    assert do(pool, "SELECT status FROM search_index_task WHERE id = %s", task) == [("cancelled",)]
    assert index_switch.stopping(pool, 9) == []
    assert tasks.begin_plan(pool, asked, uuid4()) is not None


def test_a_task_that_did_not_begin_does_not_begin_after_such_a_cancel(pool: Pool, database_url: str) -> None:
    old = new_task(pool)
    ((tool,),) = do(pool, "SELECT tool_id FROM search_index_task WHERE id = %s", old)
    do(pool, "UPDATE search_index_task SET status = 'ready' WHERE id = %s", old)
    task = tool_actions.reindex(pool, tool, full=False, allow_removals=False)
    assert task is not None
    with session(database_url, "psql", LOCK.format(task)) as holder:
        tool_actions.cancel(pool, tool)
        holder.rollback()
    assert tasks.begin_plan(pool, task, uuid4()) is None
    assert tool_actions.end_stopped(pool, task, index_of(pool, task))


@pytest.mark.parametrize("table", ["search_index_task", "search_index"])
def test_workers_serve_no_task_whose_rows_are_held(pool: Pool, database_url: str, table: str) -> None:
    do(pool, "UPDATE search_index_task SET status = 'cancelled' WHERE status IN ('pending', 'indexing')")
    task = new_task(pool)
    row = task if table == "search_index_task" else index_of(pool, task)
    assert turns.fairest(pool) == task
    with session(database_url, "psql", f"SELECT FROM {table} WHERE id = '{row}' FOR UPDATE"):
        assert turns.fairest(pool) is None
        other = new_task(pool)
        assert turns.fairest(pool, preferred=task) == other


def test_a_task_is_passed_over_until_its_files_are_free(pool: Pool, database_url: str) -> None:
    do(pool, "UPDATE search_index_task SET status = 'cancelled' WHERE status IN ('pending', 'indexing')")
    task = new_task(pool)
    lock = f"SELECT FROM search_index_file WHERE index_id = '{index_of(pool, task)}' FOR UPDATE"
    assert not files.are_held(pool, task)
    with session(database_url, "psql", lock):
        assert files.are_held(pool, task)
        messages.pass_over(pool, task)
        assert turns.fairest(pool) is None
        waits = "SELECT sent_at BETWEEN now() + interval '25 s' AND now() + interval '35 s', warning IS NOT NULL"
        assert do(pool, f"{waits} FROM search_index_task WHERE id = %s", task) == [(True, True)]
        assert messages.take_up_freed(pool) == 0
    assert messages.take_up_freed(pool) == 1
    assert turns.fairest(pool) == task
    assert do(pool, "SELECT warning FROM search_index_task WHERE id = %s", task) == [(None,)]


def test_what_a_worker_meets_is_tried_again_after_half_a_minute(pool: Pool) -> None:
    """Of what was locked, no trace is left: perhaps it is locked again."""
    messages.take_up_freed(pool)
    messages.pass_over(pool, new_task(pool))
    assert messages.take_up_freed(pool) == 0


def test_a_request_waits_for_a_lock_and_then_gives_up(pool: Pool, database_url: str) -> None:
    task = new_task(pool)
    ((tool,),) = do(pool, "SELECT tool_id FROM search_index_task WHERE id = %s", task)
    with session(database_url, "psql", LOCK.format(task)), pytest.raises(LockNotAvailable):
        tool_actions.reindex(pool, tool, full=False, allow_removals=False)
    assert WORK.again == 0
    assert Application.API in EXPENDABLE
    with open_pool(database_url) as another:
        assert tool_actions.reindex(another, tool, full=False, allow_removals=False) is None


def test_requests_that_wait_for_locks_leave_connections_to_others(pool: Pool, database_url: str) -> None:
    task = new_task(pool)
    ((tool,),) = do(pool, "SELECT tool_id FROM search_index_task WHERE id = %s", task)
    limits, tried = replace(REQUEST, again=1.5, lock=0.5), []

    def reindex(lender: Pool) -> None:
        with pytest.raises((LockNotAvailable, Locked)):
            tool_actions.reindex(lender, tool, full=False, allow_removals=False)
        tried.append(tool)

    with (
        session(database_url, "psql", LOCK.format(task)),
        open_pool(database_url, max_size=6, limits=limits) as lender,
        ThreadPoolExecutor(40) as threads,
    ):
        waiting = [threads.submit(reindex, lender) for _ in range(40)]
        most = 0
        while not all(each.done() for each in waiting):
            used = lender.get_stats()
            most = max(most, used["pool_size"] - used["pool_available"])
            assert do(lender, "SELECT 1") == [(1,)]
        for each in waiting:
            each.result()
    assert len(tried) == 40
    # one for the tool, one for this test, and one that is being opened
    assert most <= 3
