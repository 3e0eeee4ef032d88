"""Each kind of row, and each table, is held by an administrator's session for a minute."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos.full import only_in_full
from tests.held_locks import (
    READY_SECONDS,
    ROWS,
    Tenant,
    begin_task,
    deadlocks,
    hold_rows,
    hold_tables,
    prove,
    settings,
    tenant,
    walk,
)
from tests.service import NewService, Service
from worker.settings import LOCAL_LLM, LOCAL_MODEL
from worker.state.schema_version import needed, script

#: Seconds for which a lock is held.
HELD_SECONDS = 60.0
#: The tables that the baseline and migrations leave.
MIGRATIONS = "".join(script(name).read_text() for name in needed())
TABLES = sorted(
    {*re.findall(r"^CREATE (?:UNLOGGED )?TABLE (\w+)", MIGRATIONS, re.MULTILINE)}
    - {*re.findall(r"^DROP TABLE (\w+)", MIGRATIONS, re.MULTILINE)}
)

pytestmark = [only_in_full, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with new_service(**settings(root, LOCAL_MODEL, LOCAL_LLM)) as started:
        yield started


@pytest.fixture(scope="module")
def other(running: Service, root: Path) -> Tenant:
    return tenant(running, root, "other")


@pytest.fixture
def victim(running: Service, root: Path) -> Tenant:
    return tenant(running, root, "victim")


@pytest.mark.parametrize("kind", ROWS)
def test_a_held_row_delays_its_own_project_only(running: Service, victim: Tenant, other: Tenant, kind: str) -> None:
    begin_task(victim)
    until = time.monotonic() + HELD_SECONDS
    with hold_rows(victim, kind), ThreadPoolExecutor(1) as threads:
        walked = threads.submit(walk_until, until, victim)
        while time.monotonic() < until:
            assert other.wait(other.new_tool(), READY_SECONDS) == "ready"
            time.sleep(1)
        assert walked.result() == []
    prove(victim, running)
    assert deadlocks(running) == 0


@pytest.mark.parametrize("table", TABLES)
def test_a_held_table_delays_no_call_for_long(running: Service, victim: Tenant, other: Tenant, table: str) -> None:
    begin_task(victim)
    until = time.monotonic() + HELD_SECONDS
    with hold_tables(running, table), ThreadPoolExecutor(2) as threads:
        walked = [threads.submit(walk_until, until, who) for who in (victim, other)]
        assert [each.result() for each in walked] == [[], []]
    assert other.wait(other.new_tool(), READY_SECONDS) == "ready"
    prove(victim, running)
    assert deadlocks(running) == 0


def walk_until(until: float, who: Tenant) -> list[str]:
    """Call everything again and again. Returns the first calls that were not answered in time."""
    while time.monotonic() < until:
        if wrong := walk(who, 8):
            return wrong
    return []
