"""How often the clock asks for a sweep: each second while anything is open, and seldom while nothing is."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from celery.schedules import schedule

from tests.integration.steps.site import Site, new_site, passes
from worker.app import BULK, FAST, IDLE_LOOK_SECONDS, IDLE_SWEEP_SECONDS, app
from worker.resources import Resources
from worker.state import open_work
from worker.state.index import changes
from worker.tasks import process, upkeep
from worker.upkeep import clock
from worker.upkeep.clock import StatefulSweepScheduler, SweepScheduler

pytestmark = pytest.mark.usefixtures("nobody_else")

AHEAD = timedelta(seconds=1)


@pytest.fixture
def idle(resources: Resources) -> Site:
    """A tool of which nothing is open, nor of any other."""
    site = new_site(resources)
    site.list_folder()
    site.finish_all()
    with resources.pool.connection() as connection:
        connection.execute("UPDATE search_index_task SET status = 'cancelled' WHERE status IN ('pending', 'indexing')")
        connection.execute("DELETE FROM file_lease")
        connection.execute("DELETE FROM search_index_change")
        connection.execute("UPDATE search_tool SET next_run_at = NULL")
        connection.execute("UPDATE summary_tree SET status = 'none'")
    return site


def is_open(site: Site) -> bool:
    return open_work.any_open(site.pool, AHEAD)


def test_a_task_is_open_until_it_ends(idle: Site) -> None:
    assert not is_open(idle)
    idle.start()
    assert is_open(idle)
    idle.list_folder()
    assert is_open(idle)
    idle.cancel()
    assert not is_open(idle)


def test_a_lease_is_open_work(idle: Site) -> None:
    lease = "INSERT INTO file_lease (owner, until, index_id) VALUES (%s, now(), %s) RETURNING 1"
    idle.do(lease, uuid4(), idle.index.id)
    assert is_open(idle)


def test_a_run_is_open_work_just_before_it_is_due(idle: Site) -> None:
    changes.note_change(idle.pool, idle.index.id, quiet=timedelta(seconds=60))
    passes(idle.resources, 58)
    assert not is_open(idle)
    passes(idle.resources, 1.5)
    assert is_open(idle)


def test_a_tree_is_open_work_until_it_is_built(idle: Site) -> None:
    tree = "INSERT INTO summary_tree (id, index_id, project_id, config, status) VALUES (%s, %s, %s, '{}', 'pending')"
    idle.do(tree, uuid4(), idle.index.id, idle.project)
    assert is_open(idle)
    idle.do("UPDATE summary_tree SET status = 'indexed' WHERE index_id = %s", idle.index.id)
    assert not is_open(idle)


@pytest.mark.parametrize(("seconds", "due"), [(30, False), (1, True), (0, True)])
def test_a_schedule_is_open_work_just_before_it_is_due(idle: Site, seconds: int, due: bool) -> None:
    scheduled = "UPDATE search_tool SET next_run_at = now() + make_interval(secs => %s) WHERE id = %s RETURNING 1"
    idle.do(scheduled, seconds, idle.tool)
    assert is_open(idle) == due


def test_a_sweep_is_late_only_while_a_task_is_open_for_as_long(idle: Site) -> None:
    def is_late() -> bool:
        return open_work.is_sweep_late(idle.pool, timedelta(seconds=3))

    def pass_(seconds: int) -> None:
        passes(idle.resources, seconds)
        idle.do("UPDATE upkeep SET ran_at = ran_at - make_interval(secs => %s) RETURNING 1", seconds)

    open_work.note_sweep(idle.pool)
    idle.start()
    pass_(2)
    assert not is_late()
    pass_(2)
    assert is_late()
    open_work.note_sweep(idle.pool)
    assert not is_late()
    pass_(4)
    idle.cancel()
    # at rest sweeps are rare
    assert not is_late()
    idle.start()
    assert not is_late()
    pass_(4)
    assert is_late()
    # no sweep at all is late, too
    idle.do("DELETE FROM upkeep WHERE name = 'sweep' RETURNING 1")
    assert is_late()


@pytest.mark.parametrize(("seconds", "skipped"), [(0, True), (1, False), (-3600, False)])
def test_a_message_sweeps_unless_a_sweep_began_just_now(
    idle: Site, monkeypatch: pytest.MonkeyPatch, seconds: int, skipped: bool
) -> None:
    monkeypatch.setattr(process, "resources", lambda: idle.resources)
    open_work.note_sweep(idle.pool)
    idle.do("UPDATE upkeep SET ran_at = ran_at - make_interval(secs => %s) RETURNING 1", seconds)
    assert (upkeep.sweep() == {"skipped": "swept just now"}) == skipped


def sweeps_in_a_minute(monkeypatch: pytest.MonkeyPatch, step_seconds: float = 0) -> tuple[list[str], int]:
    """The queues that get a sweep within a minute, in this order, and how often the clock woke for it.

    After half of the minute, the time of day steps by `step_seconds`.
    """
    sent: list[str] = []
    monkeypatch.setattr(clock, "crowded", lambda _: False)

    def send(_: object, __: str, *, queue: str, **options: object) -> None:
        # an expiry would be a time of this machine's clock, which another machine compares with its own
        assert options.keys() <= {"producer", "event_dispatcher"}
        sent.append(queue)

    monkeypatch.setattr(SweepScheduler, "send_task", send)
    monkeypatch.setattr(SweepScheduler, "producer", None)
    now, times = datetime.now(UTC), Times()
    monkeypatch.setattr(clock, "time", times)
    monkeypatch.setattr(schedule, "now", lambda _: now)
    beat = SweepScheduler(app)
    turns = 0
    while times.seconds < 60:
        pause = beat.tick()
        now += timedelta(seconds=pause + (step_seconds if times.seconds < 30 <= times.seconds + pause else 0))
        times.seconds += pause
        turns += 1
        # Celery's own clock asks thousands of times
        assert turns <= 4 * 62
    return sent, turns


def test_a_scheduler_with_a_state_file_sends_sweeps_alone(tmp_path: Path) -> None:
    beat = StatefulSweepScheduler(app, schedule_filename=str(tmp_path / "schedule"))
    # Celery adds a task that cleans a store of results
    assert {entry.task for entry in beat.schedule.values()} == {"foldex.sweep"}
    beat.close()


def test_the_clock_sends_few_messages_while_nothing_is_open(idle: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_pool", lambda: idle.pool)
    sent, turns = sweeps_in_a_minute(monkeypatch)
    assert len(sent) == 60 / IDLE_SWEEP_SECONDS
    assert all(queue != following for queue, following in pairwise(sent))
    # the two entries are not due at the same moment
    assert turns <= 2 * 60 / IDLE_LOOK_SECONDS + 2
    idle.start()
    sent, _ = sweeps_in_a_minute(monkeypatch)
    assert Counter(sent) == {FAST: 60, BULK: 60}


@pytest.mark.parametrize("step_seconds", [-3600, 3600])
def test_a_step_of_the_time_of_day_stops_no_sweep(
    idle: Site, monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> None:
    monkeypatch.setattr(clock, "_pool", lambda: idle.pool)
    idle.start()
    sent, _ = sweeps_in_a_minute(monkeypatch, step_seconds)
    assert Counter(sent) == {FAST: 60, BULK: 60}


def test_the_clock_sends_nothing_to_a_crowded_queue(idle: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    idle.start()
    sweeps = clock._SweepSchedule()
    monkeypatch.setattr(clock, "_pool", lambda: idle.pool)
    monkeypatch.setattr(clock, "crowded", lambda queue: queue == BULK)
    assert (sweeps.is_due(FAST), sweeps.is_due(BULK)) == (True, False)


def test_the_clock_goes_on_while_postgres_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def pool() -> None:
        raise psycopg.OperationalError

    monkeypatch.setattr(clock, "_pool", pool)
    sent, _ = sweeps_in_a_minute(monkeypatch)
    assert len(sent) == 2 * 60


def test_the_clock_imports_no_task() -> None:
    loaded = "import sys, worker.upkeep.clock; print(*(name for name in sys.modules if name.startswith('worker.')))"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert "worker.app" in found
    assert not {"worker.tasks", "worker.resources", "worker.parse"} & {*found}


class Times:
    """A clock that stands until it is set."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds
