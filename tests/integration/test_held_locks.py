"""Rows and tables that an administrator's session holds: no other project waits, and nothing is lost.

`tests/chaos/test_held_locks.py` holds each for a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.held_locks import (
    READY_SECONDS,
    ROWS,
    TABLES,
    Tenant,
    begin_task,
    deadlocks,
    hold_rows,
    hold_tables,
    prove,
    settings,
    tenant,
    walk,
    walk_last,
)
from tests.service import NewService, Service, eventually
from worker.settings import LOCAL_LLM, LOCAL_MODEL

#: Kinds of rows that are held together: those on which most depends are held alone.
ALONE = ("task", "index", "tool", "project")
KINDS = (*((kind,) for kind in ALONE), ("file", "chunk", "delta", "lease", "tree"))
KINDS = (*KINDS, tuple(kind for kind in ROWS if not any(kind in kinds for kinds in KINDS)))
#: Locked one by one, because nearly every call needs them. The others are locked together.
NEEDED = ("api_key", "search_tool")


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with new_service(**settings(root, LOCAL_MODEL, LOCAL_LLM)) as started:
        yield started


@pytest.fixture(scope="module")
def other(running: Service, root: Path) -> Tenant:
    return tenant(running, root, "other")


@pytest.fixture(scope="module")
def victim(running: Service, root: Path) -> Tenant:
    return tenant(running, root, "victim")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_held_rows_delay_their_own_project_only(
    running: Service, victim: Tenant, other: Tenant, kinds: tuple[str, ...]
) -> None:
    begin_task(victim)
    with hold_rows(victim, *kinds), ThreadPoolExecutor(1) as threads:
        walked = threads.submit(walk, victim)
        assert other.wait(other.new_tool(), READY_SECONDS) == "ready"
        assert walked.result() == []
    prove(victim, running)
    assert deadlocks(running) == 0


@pytest.mark.timeout(180)
@pytest.mark.parametrize("table", [*NEEDED, "others"])
def test_a_held_table_delays_no_call_for_long(running: Service, victim: Tenant, other: Tenant, table: str) -> None:
    begin_task(victim)
    others = [name for (name,) in running.rows(TABLES) if name not in NEEDED]
    with hold_tables(running, *(others if table == "others" else [table])):
        assert walk(victim) == []
    assert other.wait(other.new_tool(), READY_SECONDS) == "ready"
    prove(victim, running)
    # a session that locks several tables one after the other may meet others on its way
    assert table == "others" or deadlocks(running) == 0


@pytest.mark.timeout(180)
def test_what_a_held_task_belongs_to_is_deleted(running: Service, root: Path) -> None:
    leaving = tenant(running, root, "leaving")
    begin_task(leaving)
    with hold_rows(leaving, "task"):
        assert walk_last(leaving) == []
        assert running.rows("SELECT FROM search_tool WHERE project_id = %s", leaving.project) == []
    # the sweep ends the task
    opened = "SELECT FROM search_index_task WHERE tool_id = %s AND status IN ('pending', 'indexing')"
    eventually(lambda: not running.rows(opened, leaving.ids["tool_id"]), READY_SECONDS, running.logs)
