"""The alarm for tasks that no worker works on; directly on the rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
import structlog

from api.http.metrics import BacklogCollector
from tests.integration.test_leases import FILES, new_task
from worker.app import BULK, FAST, MAX_SLICES, app
from worker.resources import Resources
from worker.state.index import files, task_notes, tasks
from worker.state.pool import Pool
from worker.upkeep import open_tasks

MINUTE = timedelta(minutes=1)


@pytest.fixture
def task(pool: Pool) -> Iterator[UUID]:
    """A task that has listed its files, and on which no worker has worked for two minutes."""
    made = new_task(pool)
    _execute(pool, "UPDATE search_index_task SET created_at = now() - interval '2 min' WHERE id = %s", made)
    yield made
    _execute(pool, "UPDATE search_index_task SET status = 'ready' WHERE id = %s", made)
    _execute(pool, "DELETE FROM file_lease")


@pytest.fixture
def resources(pool: Pool) -> Resources:
    return cast("Resources", cast("Any", SimpleNamespace(pool=pool)))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Name, id and queue of each message; the broker's queues are empty."""
    messages: list[tuple[str, str, str]] = []
    monkeypatch.setattr(app, "send_task", lambda name, args, queue, **_: messages.append((name, *args, queue)))
    monkeypatch.setattr(open_tasks, "count_queued", lambda _: 0)
    return messages


def _execute(pool: Pool, query: str, *values: object) -> None:
    with pool.connection() as connection:
        connection.execute(query.encode(), values or None)


def _index_of(pool: Pool, task: UUID) -> UUID:
    with pool.connection() as connection:
        return connection.execute("SELECT index_id FROM search_index_task WHERE id = %s", [task]).fetchall()[0][0]  # type: ignore[no-any-return] # a row is untyped


def _claim(pool: Pool, task: UUID) -> UUID:
    owner = uuid4()
    index_id = _index_of(pool, task)
    assert files.claim(pool, task_id=task, index_id=index_id, owner=owner, max_files=1, max_bytes=1)
    return owner


def _found(pool: Pool) -> list[UUID]:
    return [found.id for found in task_notes.find_stalled(pool, MINUTE)]


def test_a_task_that_nobody_works_on_is_found_once_in_its_time(pool: Pool, task: UUID) -> None:
    assert _found(pool) == [task]
    assert _found(pool) == []
    _execute(pool, "UPDATE search_index_task SET moved_at = now() - interval '59 s' WHERE id = %s", task)
    assert _found(pool) == []
    _execute(pool, "UPDATE search_index_task SET moved_at = now() - interval '61 s' WHERE id = %s", task)
    assert _found(pool) == [task]


def test_a_task_whose_files_somebody_holds_is_at_work(pool: Pool, task: UUID) -> None:
    owner = _claim(pool, task)
    assert _found(pool) == []
    _execute(pool, "UPDATE search_index_task SET moved_at = now() - interval '2 min' WHERE id = %s", task)
    _execute(pool, "UPDATE file_lease SET until = now() - interval '1 s' WHERE owner = %s", owner)
    assert _found(pool) == [task]


@pytest.mark.parametrize(("seconds_ago", "is_noted"), [(5, False), (11, True)])
def test_work_is_noted_every_ten_seconds(pool: Pool, task: UUID, seconds_ago: float, is_noted: bool) -> None:
    _claim(pool, task)
    ago = timedelta(seconds=seconds_ago)
    _execute(pool, "UPDATE search_index_task SET moved_at = now() - %s WHERE id = %s", ago, task)
    query = "SELECT moved_at FROM search_index_task WHERE id = %s"
    with pool.connection() as connection:
        before = connection.execute(query, [task]).fetchone()
    assert _found(pool) == []
    with pool.connection() as connection:
        assert (connection.execute(query, [task]).fetchone() != before) == is_noted


def test_a_worker_whose_lease_is_over_does_no_work(pool: Pool, task: UUID) -> None:
    owner = _claim(pool, task)
    assert files.any_work(pool)
    _execute(pool, "UPDATE file_lease SET until = now() - interval '1 s' WHERE owner = %s", owner)
    assert not files.any_work(pool)


def test_a_task_whose_folder_is_being_listed_is_at_work(pool: Pool, task: UUID) -> None:
    listing = "UPDATE search_index_task SET listing = true, plan_until = now() + %s WHERE id = %s"
    _execute(pool, listing, MINUTE, task)
    assert _found(pool) == []
    _execute(pool, "UPDATE search_index_task SET moved_at = now() - interval '2 min' WHERE id = %s", task)
    _execute(pool, listing, -MINUTE, task)
    assert _found(pool) == [task]


def test_a_change_of_the_counts_is_work(pool: Pool, task: UUID) -> None:
    index_id = _index_of(pool, task)
    tasks.refresh(pool, task, index_id)
    old = "UPDATE search_index_task SET moved_at = now() - interval '2 min', counted_at = NULL WHERE id = %s"
    _execute(pool, old, task)
    tasks.refresh(pool, task, index_id)
    assert _found(pool) == [task]
    _execute(pool, old, task)
    one = "SELECT id FROM search_index_file WHERE index_id = %s LIMIT 1"
    _execute(pool, f"UPDATE search_index_file SET status = 'skipped' WHERE id IN ({one})", index_id)
    tasks.refresh(pool, task, index_id)
    assert _found(pool) == []


@pytest.mark.parametrize(
    ("warning", "held", "sent_ago", "found"),
    [
        ("Waiting: the provider is down.", 0, timedelta(seconds=5), False),
        ("Waiting: the provider is down.", 0, 2 * MINUTE, True),
        ("Many files are gone.", 30, timedelta(seconds=5), True),
        (tasks.BUSY, 0, timedelta(seconds=5), True),
        (None, 0, timedelta(seconds=5), True),
        (None, 0, -MINUTE, False),
    ],
)
def test_a_warning_says_what_a_task_waits_for_while_its_messages_go_on(
    pool: Pool, task: UUID, warning: str | None, held: int, sent_ago: timedelta, found: bool
) -> None:
    _execute(
        pool,
        "UPDATE search_index_task SET warning = %s, held_removals = %s, sent_at = now() - %s WHERE id = %s",
        *(warning, held, sent_ago, task),
    )
    assert _found(pool) == [task] * found


def test_the_alarm_tells_the_state_and_sends_all_messages_again(
    resources: Resources, task: UUID, sent: list[tuple[str, str, str]]
) -> None:
    with structlog.testing.capture_logs() as logs:
        assert open_tasks.restart_stalled(resources) == 1
    assert sent == [("foldex.index", str(task), queue) for queue in (FAST, *[BULK] * MAX_SLICES)]
    (alarm,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert (alarm["task_id"], alarm["open_files"]) == (str(task), {"pending read": FILES})


def test_a_round_restarts_some_of_many_tasks_and_the_next_one_the_others(
    pool: Pool, resources: Resources, task: UUID, sent: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_tasks, "MAX_RESTARTED", 1)
    other = new_task(pool)
    _execute(pool, "UPDATE search_index_task SET created_at = now() - interval '2 min' WHERE id = %s", other)
    assert [open_tasks.restart_stalled(resources) for _ in range(3)] == [1, 1, 0]
    assert {id_ for _, id_, _ in sent} == {str(task), str(other)}
    _execute(pool, "UPDATE search_index_task SET status = 'ready' WHERE id = %s", other)


def test_a_task_waits_quietly_while_others_keep_the_workers(
    pool: Pool, resources: Resources, task: UUID, sent: list[tuple[str, str, str]]
) -> None:
    busy = new_task(pool)
    _claim(pool, busy)
    assert open_tasks.restart_stalled(resources) == 0
    assert sent == []
    with pool.connection() as connection:
        query = "SELECT warning FROM search_index_task WHERE id = %s"
        assert connection.execute(query, [task]).fetchone() == (tasks.BUSY,)
    _execute(pool, "UPDATE search_index_task SET status = 'ready' WHERE id = %s", busy)


def test_removals_are_files_that_wait(pool: Pool, task: UUID) -> None:
    index_id = _index_of(pool, task)
    done = "UPDATE search_index_file SET status = 'indexed' WHERE index_id = %s"
    _execute(pool, done, index_id)
    assert _waiting(pool) == 0
    one = "SELECT id FROM search_index_file WHERE index_id = %s LIMIT 1"
    _execute(pool, f"UPDATE search_index_file SET status = 'pending', work = 'remove' WHERE id IN ({one})", index_id)
    tasks.refresh(pool, task, index_id)
    assert _waiting(pool) == 1


def _waiting(pool: Pool) -> float:
    found = {metric.name: metric.samples for metric in BacklogCollector(pool).collect()}
    return found["foldex_files_pending"][0].value
