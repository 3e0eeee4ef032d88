"""The registry of hosts: who runs, who is gone, whose clock is wrong, and who leaves which work to others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from structlog.testing import capture_logs

from api.routes import health
from api.stack import programs
from api.stack.processes import start, stop
from schemas.errors import EmbeddingUnauthorized, EmbeddingUnavailable, FoldexError, StoreUnauthorized
from tests.integration.database import do
from tests.integration.steps.site import Site
from tests.service import environment, eventually
from worker.hosts import compare, presence
from worker.hosts.compared_settings import registration
from worker.hosts.needs import NeededSettings
from worker.hosts.presence import Presence
from worker.machine.host import Host
from worker.resources import Resources
from worker.settings import Settings
from worker.state import hosts
from worker.state.hosts import ClockOffset, Registration
from worker.state.index import statuses, task_notes, turns
from worker.state.index.turns import Reach
from worker.state.pool import Pool
from worker.tasks import leaving, process

WELL = ClockOffset(0.0, 0.0)
SEEN = "UPDATE host_process SET seen_at = now() + make_interval(secs => %s) WHERE id = %s RETURNING 1"


@pytest.fixture
def pool(resources: Resources) -> Pool:
    do(resources.pool, "DELETE FROM host_process RETURNING 1")
    return resources.pool


def noted(
    pool: Pool, name: str = "one", *, queues: tuple[str, ...] = ("fast", "bulk"), clock: ClockOffset = WELL, **env: Any
) -> Registration:
    """A worker of another machine, with these settings, that noted just now that it runs."""
    made = registration(Settings(**env), "salt", id_=uuid4(), role="worker", node=f"bulk@{name}", queues=queues)
    made = replace(made, host=Host(name[:64], "0" * 12))
    with pool.connection() as connection:
        hosts.note(connection, made, clock, {})
    return made


def alive(pool: Pool) -> list[str]:
    return [each.name for each in hosts.alive(pool)]


@pytest.mark.parametrize(
    ("seconds", "is_alive"), [(0, True), (-59, True), (-61, False), (30, True), (3600, False), (-3600, False)]
)
def test_a_process_is_alive_for_a_minute_by_the_clock_of_postgres(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, seconds: float, is_alive: bool
) -> None:
    # the Postgres of the tests may have started just now
    monkeypatch.setattr(hosts, "_SQL", {**hosts._SQL, "alive": without_start(hosts._SQL["alive"])})
    one, two = noted(pool), noted(pool, "two")
    do(pool, SEEN, seconds, one.id)
    assert alive(pool) == [*(["bulk@one"] if is_alive else []), "bulk@two"]
    with pool.connection() as connection:
        hosts.note(connection, two, WELL, {})
    left = {id_ for (id_,) in do(pool, "SELECT id FROM host_process")}
    assert left == ({one.id, two.id} if seconds > -600 else {two.id})


def test_a_process_that_ends_is_shown_no_more_and_may_return(
    pool: Pool, resources: Resources, me: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hosts, "_SQL", {**hosts._SQL, **{name: without_start(hosts._SQL[name]) for name in ("alive", "others")}}
    )
    two = noted(pool, "two", **HAS)
    here = Presence(resources.settings, "worker", node="bulk@here", queues=["bulk"])
    assert here.lacks(["AUTH"])  # nothing is known yet
    here.note()
    assert [here.lacks(names) for names in ([], ["AUTH"], ["AUTH", "S3_BUCKET"])] == [False, False, True]
    assert set(alive(pool)) == {"bulk@here", "bulk@me", "bulk@two"}
    here.end()
    with pool.connection() as connection:
        hosts.end(connection, two.id)
    assert alive(pool) == ["bulk@me"]
    # a worker that is started again takes what was left to it
    assert leaves(pool, uuid4())


def started(query: Any, at: str) -> Any:
    """The query as if Postgres started then."""
    text = query.as_string(None)
    assert "pg_postmaster_start_time()" in text
    return psycopg.sql.SQL(text.replace("pg_postmaster_start_time()", at))


def without_start(query: Any) -> Any:
    """The query as some minutes after Postgres started."""
    return started(query, "'-infinity'::timestamptz")


@pytest.mark.parametrize(("seconds", "is_alive"), [(59, True), (61, False)])
def test_after_a_start_of_postgres_all_get_time_to_note_that_they_run(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, seconds: int, is_alive: bool
) -> None:
    query = started(hosts._SQL["alive"], f"(now() - interval '{seconds} s')")
    monkeypatch.setattr(hosts, "_SQL", {**hosts._SQL, "alive": query})
    one = noted(pool)
    do(pool, SEEN, -3600, one.id)
    assert alive(pool) == (["bulk@one"] if is_alive else [])


def test_after_a_start_of_the_stack_its_former_processes_are_not_compared(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = started(hosts._SQL["alive"], "(now() - interval '5 s')")
    monkeypatch.setattr(hosts, "_SQL", {**hosts._SQL, "alive": query})
    noted(pool, celery_broker_url="redis://localhost:1/0")
    noted(pool, "two", celery_broker_url="redis://localhost:2/0")
    do(pool, "UPDATE host_process SET seen_at = now() - interval '5 min' RETURNING 1")
    noted(pool, celery_broker_url="redis://localhost:2/0")
    assert alive(pool) == ["bulk@one", "bulk@two"]
    assert compare.survey(pool)[1] == []


def test_a_hundred_hosts_of_which_one_differs(pool: Pool, resources: Resources) -> None:
    for number in range(100):
        noted(pool, f"h{number:02}", s3_bucket="contents" if number != 42 else None)
    processes, findings = compare.survey(pool)
    assert len(processes) == 100
    [found] = findings
    assert "S3_BUCKET is not set for bulk@h42, but for bulk@h00, bulk@h01, bulk@h02 and 96 more" in found.sentence
    answer = health.readyz(resources)
    assert answer.hosts == found.sentence
    assert found.sentence in (answer.warning or "")
    do(pool, "DELETE FROM host_process WHERE host_name = 'h42' RETURNING 1")
    assert health.readyz(resources).hosts is None
    assert len(health.get_hosts(resources).processes) == 99


@pytest.mark.parametrize(("seconds", "wrong"), [(1.5, False), (2.5, True), (-2.5, True)])
def test_a_clock_that_is_wrong_is_told_by_readyz_and_once_in_the_log(
    pool: Pool, resources: Resources, monkeypatch: pytest.MonkeyPatch, seconds: float, wrong: bool
) -> None:
    here = Presence(resources.settings, "worker", node="bulk@here", queues=["bulk"])
    shifted = partial(presence.clock_offset, wall=lambda: time.time() + seconds)
    monkeypatch.setattr(presence, "clock_offset", shifted)
    with capture_logs() as lines:
        here.note()
        here.note()
    told = [line for line in lines if "clock" in line["event"]]
    assert len(told) == wrong
    assert ("The clock of " in (health.readyz(resources).hosts or "")) is wrong


def test_a_name_of_an_attacker_is_bounded_and_shown_without_control_characters(
    pool: Pool, resources: Resources
) -> None:
    long = replace(noted(pool), id=uuid4(), host=Host("n" * 10_000, "0" * 12))
    with pool.connection() as connection, pytest.raises(psycopg.errors.CheckViolation):
        hosts.note(connection, long, WELL, {})
    do(pool, "UPDATE host_process SET host_name = %s, node = %s, release = %s RETURNING 1", *["\x1b[2J<b>\u202e"] * 3)
    noted(pool, "two")
    shown = health.readyz(resources).hosts or ""
    assert "__2J_b__" in shown
    assert shown.isprintable()
    assert "\x1b" not in health.get_hosts(resources).model_dump_json()


def test_an_outage_of_postgres_ends_no_process_and_is_logged_once(resources: Resources) -> None:
    away = resources.settings.model_copy(update={"database_url": "postgresql://127.0.0.1:1/gone"})
    here = Presence(away, "beat")
    with capture_logs() as lines:
        here.note()
        here.note()
    assert [line["log_level"] for line in lines] == ["warning"]


# --- work that is left to others


@pytest.fixture
def me(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """This worker, which lacks the bucket and has a key of its own."""
    mine = noted(pool, "me", embedding_api_key="mine-mine-mine")
    monkeypatch.setattr(process, "me", lambda: mine.id)
    monkeypatch.setattr(process, "lacks", lambda names: any(mine.settings[name] is None for name in names))
    return mine.id


HAS: dict[str, Any] = {"s3_bucket": "contents", "embedding_api_key": "mine-mine-mine"}
NEEDS = NeededSettings({"source": ["S3_BUCKET"], "embedding": ["EMBEDDING_API_KEY"]})


def leaves(pool: Pool, work: UUID, *queues: str) -> bool:
    return leaving.leave_if_lacking(pool, work, queues or ("bulk",), NEEDS, lambda *_: None)


def test_work_is_left_only_to_a_worker_that_has_what_this_one_lacks(pool: Pool, me: UUID) -> None:
    work = uuid4()
    assert not leaves(pool, work)
    # lacks it too, also with another key; takes from another queue; is no worker
    noted(pool, "two", embedding_api_key="mine-mine-mine")
    noted(pool, "other key", embedding_api_key="other-other-other")
    noted(pool, "three", queues=("fast",), **HAS)
    api = noted(pool, "four", **HAS)
    do(pool, "UPDATE host_process SET role = 'api' WHERE id = %s RETURNING 1", api.id)
    assert not leaves(pool, work)
    assert leaves(pool, work, "fast", "bulk")
    assert leaves(pool, work, "fast")
    five = noted(pool, "five", **HAS)
    assert leaves(pool, work)
    hosts.decline(pool, five.id, work)
    assert not leaves(pool, work)
    assert leaves(pool, uuid4())


@pytest.mark.parametrize(("seconds", "left"), [(-119, True), (-121, False)])
def test_work_waits_two_minutes_for_a_worker_that_is_gone(
    pool: Pool, me: UUID, monkeypatch: pytest.MonkeyPatch, seconds: float, left: bool
) -> None:
    monkeypatch.setattr(hosts, "_SQL", {**hosts._SQL, "others": without_start(hosts._SQL["others"])})
    two = noted(pool, "two", **HAS)
    do(pool, SEEN, seconds, two.id)
    assert leaves(pool, uuid4()) is left


@pytest.mark.parametrize(
    ("error", "key", "left"),
    [
        (EmbeddingUnauthorized("401"), "other-other-other", True),
        # with the same key it fails the same
        (EmbeddingUnauthorized("401"), "mine-mine-mine", False),
        (EmbeddingUnavailable("503"), "other-other-other", False),
        # the bucket differs, too, but the error is about neither
        (StoreUnauthorized("401"), "other-other-other", False),
    ],
)
def test_work_that_failed_is_left_to_a_worker_with_another_key(
    pool: Pool, me: UUID, error: FoldexError, key: str, left: bool
) -> None:
    noted(pool, "two", s3_bucket="contents", embedding_api_key=key)
    warned: list[str] = []
    warn = lambda _pool, _id, text: warned.append(text)  # noqa: E731 - one line says all
    assert leaving.leave_after(pool, uuid4(), ("bulk",), NEEDS, warn, error) is left
    expected = "Waiting for another worker: bulk@me has another EMBEDDING_API_KEY, and failed: 401"
    assert warned == ([expected] if left else [])


@pytest.mark.parametrize(("seconds", "left"), [(19, True), (21, False)])
def test_a_task_that_was_left_is_not_taken_again_at_once(site: Site, me: UUID, seconds: float, left: bool) -> None:
    hosts.decline(site.pool, me, site.task)
    since = "UPDATE declined_work SET declined_at = now() - make_interval(secs => %s) RETURNING 1"
    do(site.pool, since, seconds)
    assert hosts.is_declined(site.pool, me, site.task) is left
    assert (turns.fairest(site.pool, preferred=site.task, reach=Reach(me)) != site.task) is left
    # others take it
    assert turns.fairest(site.pool, preferred=site.task, reach=Reach(uuid4())) == site.task
    do(site.pool, "UPDATE search_index_task SET listing = true, plan_until = NULL WHERE id = %s RETURNING 1", site.task)
    assert (site.task not in turns.listings(site.pool, site.task, Reach(me))) is left
    assert site.task in turns.listings(site.pool, site.task)


def test_the_reason_is_in_the_status(site: Site, me: UUID) -> None:
    noted(site.pool, "two", **HAS)
    assert leaving.leave_if_lacking(site.pool, site.task, ("bulk",), NEEDS, task_notes.warn)
    status = statuses.newest_of_tool(site.pool, site.tool)
    assert status is not None
    assert status.warning == "Waiting for another worker: S3_BUCKET is not set for bulk@me."
    assert leaving.is_left(site.pool, site.task)


def test_processes_of_one_machine_are_noted_by_its_name(pool: Pool, resources: Resources) -> None:
    """A scheduler as a process of its own, as it starts."""
    script = "from worker.upkeep.clock import _prepare; _prepare(); import time; time.sleep(60)"
    env = {**os.environ, "DATABASE_URL": resources.settings.database_url}
    with subprocess.Popen([sys.executable, "-c", script], env=env) as started:
        try:
            deadline = time.monotonic() + 30
            while not alive(pool) and time.monotonic() < deadline:
                time.sleep(0.1)
            [found] = hosts.alive(pool)
        finally:
            started.kill()
    assert (found.role, found.queues) == ("beat", [])
    assert found.name == f"beat@{found.host}"
    assert abs(found.clock_seconds) <= 1


@pytest.mark.parametrize("role", ["beat", "watch"])
def test_a_process_leaves_the_registry_as_it_ends(
    pool: Pool, database_url: str, redis_url: str, tmp_path: Path, role: str
) -> None:
    env = environment(tmp_path, database_url, redis_url)
    running = start({"beat": programs.beat, "watch": programs.watch}[role](env), tmp_path)
    seen = "SELECT seen_at > now() - interval '1 min' FROM host_process WHERE role = %s"
    try:
        eventually(lambda: do(pool, seen, role) == [(True,)], 60)
    finally:
        stop([running])
    assert do(pool, seen, role) == [(False,)]
