"""What the row of a task says while it waits and once it has ended; directly on the rows."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from api.http.disconnect import Disconnect
from api.search.query.refresh import compare
from schemas.errors import DiskFull, FolderGone, LeaseLost
from schemas.tool import ToolConfig
from tests.integration.steps.site import FILES, Site, listed_site, new_site
from worker.index.pipeline import index_files
from worker.machine import disk_space
from worker.machine.disk_space import LAST_SHARE, DiskSpace
from worker.resources import Resources
from worker.state.index import changes, files, index_switch, listings, statuses, task_notes, tasks, tool_actions, tools
from worker.state.index.tasks import ClosedTask
from worker.tasks.failures import settle


def task(site: Site, columns: str) -> tuple[Any, ...]:
    """Columns of the newest task."""
    query = f"SELECT {columns} FROM search_index_task WHERE index_id = %s ORDER BY created_at DESC LIMIT 1"
    return tuple(site.do(query, site.index.id)[0])


def index_all(site: Site) -> None:
    run = site.worker()
    while claims := site.claim(run):
        index_files(run, claims)


def give_up_all(site: Site, message: str = "It is broken.") -> None:
    """Let all files but the first fail; the first one is skipped."""
    site.do(
        "UPDATE search_index_file SET status = CASE WHEN path = '0.md' THEN 'skipped' ELSE 'failed' END, message = %s,"
        " live_chunks = 0, updated_at = now() WHERE index_id = %s",
        message,
        site.index.id,
    )


def close(site: Site) -> ClosedTask:
    closed = tasks.refresh(site.pool, site.task, site.index.id)
    assert closed is not None
    return closed


def stop(site: Site) -> ClosedTask:
    closed = tasks.fail(site.pool, site.task, site.index.id, FolderGone("it is gone"))
    assert closed is not None
    return closed


# --- the outcome


@pytest.mark.parametrize("number", range(1, FILES))
def test_the_error_names_the_first_failed_file_of_its_own_index(resources: Resources, site: Site, number: int) -> None:
    other = listed_site(resources)
    rename = "UPDATE search_index_file SET path = %s WHERE path = %s AND index_id = %s"
    other.do(rename, "00.md", "1.md", other.index.id)
    give_up_all(other, "Another one's.")
    # wherever its row is
    site.do(rename, "01.md", f"{number}.md", site.index.id)
    give_up_all(site)
    assert close(site).failure == (
        "no_file_indexed",
        f"No file could be indexed: {FILES - 1} failed. 01.md: It is broken.",
    )
    status, progress, finished = task(site, "status, progress, finished_at IS NOT NULL")
    assert (status, progress < 1, finished) == ("error", True, True)


def test_a_task_that_ends_well_is_done(site: Site) -> None:
    index_all(site)
    assert close(site).failure is None
    assert task(site, "status, progress, error, error_code") == ("ready", 1, None, None)


def test_a_limit_that_left_nothing_indexed_is_no_failure_of_the_files(site: Site) -> None:
    site.do("UPDATE search_index_task SET over_cost = true WHERE id = %s", site.task)
    give_up_all(site)
    assert close(site).failure is None
    assert task(site, "status, progress, error, error_code") == ("ready", 1, None, None)


def test_no_tool_switches_to_an_index_that_the_limit_left_incomplete(site: Site) -> None:
    site.do("UPDATE search_tool SET next_index_id = index_id, next_config = config WHERE id = %s", site.tool)
    index_all(site)
    site.do("UPDATE search_index_task SET over_cost = true WHERE id = %s", site.task)
    close(site)
    tool = site.do("SELECT next_index_id, update_error FROM search_tool WHERE id = %s", site.tool)
    assert tool == [(None, tasks.OVER_COST)]


def test_a_tool_that_switches_takes_its_new_schedule_and_forgets_an_error(site: Site) -> None:
    waits = "UPDATE search_tool SET next_index_id = index_id, next_config = %s, update_error = 'no' WHERE id = %s"
    site.do(waits, Jsonb({"every": 3600}), site.tool)
    index_all(site)
    close(site)
    tool = "SELECT next_run_at > now(), config, next_config, update_error FROM search_tool WHERE id = %s"
    assert site.do(tool, site.tool) == [(True, {"every": 3600}, None, None)]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("allow_removals", [False, True])
@pytest.mark.parametrize("end", [close, stop])
def test_the_run_that_follows_is_the_one_that_was_asked_for(
    site: Site, full: bool, allow_removals: bool, end: Any
) -> None:
    # what was asked for once stays asked for
    tool_actions.reindex(site.pool, site.tool, full=full, allow_removals=allow_removals)
    tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False)
    index_all(site)
    closed = end(site)
    following = (closed.next_task_id, full, allow_removals, "reindex", "pending")
    assert task(site, 'id, "full", allow_removals, kind, status') == following


def test_a_run_is_the_newest_although_the_clock_was_set_back(site: Site) -> None:
    index_all(site)
    close(site)
    site.do("UPDATE search_index_task SET created_at = now() + interval '1 h' WHERE id = %s", site.task)
    started = site.start()
    assert task(site, "id, status") == (started, "pending")


def test_only_the_open_task_ends(site: Site) -> None:
    index_all(site)
    close(site)
    first, second = site.task, site.start()
    assert tasks.fail(site.pool, first, site.index.id, FolderGone("it is gone")) is None
    assert tasks.refresh(site.pool, first, site.index.id) is None
    assert task(site, "id, status") == (second, "pending")


def test_an_end_that_does_not_wait_leaves_a_locked_index_alone(site: Site) -> None:
    index_all(site)
    with site.pool.connection() as connection:
        index_switch.lock_index(connection, site.index.id)
        assert tasks.refresh(site.pool, site.task, site.index.id, wait=False) is None
    assert tasks.refresh(site.pool, site.task, site.index.id, wait=False) is not None


# --- what a task waits for


@pytest.mark.parametrize("held", [0, 1])
@pytest.mark.parametrize("end", [close, stop])
def test_a_warning_ends_with_the_wait_unless_it_asks_for_a_decision(site: Site, held: int, end: Any) -> None:
    site.do("UPDATE search_index_task SET held_removals = %s, warning = 'At first.' WHERE id = %s", held, site.task)
    task_notes.warn(site.pool, site.task, "Waiting.")
    assert task(site, "warning") == ("At first." if held else "Waiting.",)
    task_notes.count_fault(site.pool, site.task, "a fault")
    task_notes.clear_warning(site.pool, site.task)
    assert task(site, "warning, faults, fault") == ("At first." if held else None, 0, None)
    task_notes.warn(site.pool, site.task, "Waiting again.")
    index_all(site)
    end(site)
    assert task(site, "warning") == ("At first." if held else None,)


def test_a_run_waits_for_the_disk_and_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    space = DiskSpace(site.folder, reserve=LAST_SHARE << 20)
    run = replace(site.worker(), space=space)
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: (1 << 20) - 1)
    with pytest.raises(DiskFull) as full:
        index_files(run, site.claim(run))
    files.release(site.pool, run.lease.owner)
    running = tasks.running(site.pool, site.task)
    assert running is not None
    assert settle(site.pool, running, full.value).retry_seconds is not None
    (warning,) = task(site, "warning")
    assert warning.startswith("Waiting: The disk of FOLDEX_HOME has ")
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 1 << 20)
    index_files(run, site.claim(run))
    assert set(site.outcomes().values()) == {"indexed"}


def test_removals_stay_held_while_nothing_is_listed(resources: Resources) -> None:
    site = listed_site(resources, listings.MIN_HELD_REMOVALS + 1)
    site.finish_all()
    # files that were written just now are read again
    site.do("UPDATE search_index_file SET stamp = 'old' WHERE index_id = %s", site.index.id)
    for number in range(listings.MIN_HELD_REMOVALS):
        (site.folder / f"{number}.md").unlink()
    (site.folder / "broken.pdf").write_bytes(b"%PDF-1.7")
    site.task = tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False) or site.task
    site.list_folder()
    site.finish_all()
    held = task(site, "held_removals, warning, indexed_files, failed_files")
    assert held[0] == listings.MIN_HELD_REMOVALS
    assert "allow_removals" in held[1]
    retried = tool_actions.retry(site.pool, site.tool)
    assert retried is not None
    site.task = retried.id
    site.finish_all()
    assert task(site, "held_removals, warning, indexed_files, failed_files") == held


def test_faults_at_the_same_time_count_once(site: Site) -> None:
    assert [task_notes.count_fault(site.pool, site.task, "one") for _ in range(2)] == [1, 1]
    # one that does not count does not delay the next that does
    ((at,),) = site.do("SELECT fault_at FROM search_index_task WHERE id = %s", site.task)
    assert task_notes.count_fault(site.pool, site.task, "one") == 1
    assert site.do("SELECT fault_at FROM search_index_task WHERE id = %s", site.task) == [(at,)]
    site.do("UPDATE search_index_task SET fault_at = fault_at - 2 * %s WHERE id = %s", tasks.LEASE, site.task)
    assert task_notes.count_fault(site.pool, site.task, "two") == 2
    # a clock that was set back
    site.do("UPDATE search_index_task SET fault_at = now() + interval '1 h' WHERE id = %s", site.task)
    assert task_notes.count_fault(site.pool, site.task, "three") == 3
    assert task(site, "fault") == ("three",)


# --- tokens


def spent(site: Site) -> tuple[Any, ...]:
    return task(site, "spent_tokens, over_cost")


def test_a_task_spends_all_of_its_limit_and_nothing_more(site: Site) -> None:
    site.do("UPDATE search_index_task SET max_cost_tokens = 10 WHERE id = %s", site.task)
    assert task_notes.spend(site.pool, site.task, 4) == 10
    assert task_notes.spend(site.pool, site.task, 6) == 6
    assert spent(site) == (10, False)
    assert task_notes.spend(site.pool, site.task, 1) == 0
    assert spent(site) == (10, True)
    task_notes.give_back(site.pool, site.task, 3)
    assert task_notes.spend(site.pool, site.task, 3) == 3
    # it was over the limit once, so that something is missing
    assert spent(site) == (10, True)
    task_notes.give_back(site.pool, site.task, 99)
    assert spent(site) == (0, True)


def test_a_task_without_a_limit_spends_what_it_needs(site: Site) -> None:
    assert task_notes.spend(site.pool, site.task, 10**9) == 10**9
    assert spent(site) == (10**9, False)


@pytest.mark.parametrize("over_cost", [False, True])
def test_runs_after_one_that_its_limit_stopped_count_on(site: Site, over_cost: bool) -> None:
    site.do("UPDATE search_index_task SET spent_tokens = 7, over_cost = %s WHERE id = %s", over_cost, site.task)
    index_all(site)
    close(site)
    with pytest.raises(LeaseLost):
        task_notes.spend(site.pool, site.task, 1)
    site.start()
    assert spent(site) == (7 if over_cost else 0, False)


# --- cancelling


def building(site: Site) -> tuple[UUID, UUID]:
    """Change the config of a tool. Returns the index that is being built for it, and its task."""
    new_task = tool_actions.change_config(site.pool, site.tool, ToolConfig(), site.wanted(max_file_bytes=5))
    ((new_index,),) = site.do("SELECT next_index_id FROM search_tool WHERE id = %s", site.tool)
    return new_index, new_task or UUID(int=0)


def test_a_cancel_ends_all_that_is_under_way(site: Site) -> None:
    changes.note_change(site.pool, site.index.id, quiet=timedelta(hours=1))
    new_index, new_task = building(site)
    tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False)
    epoch = "SELECT epoch, deleted_at IS NOT NULL FROM search_index WHERE id = %s"
    ((before, _),) = site.do(epoch, new_index)
    columns = (
        "total, indexed, skipped, failed, removed, chunks, embedded, reused, tokens, total_bytes, done_bytes, removing"
    )
    zeros = ", ".join("0" for _ in columns.split(","))
    other = Site(site.resources, site.folder)
    for noted in (new_task, other.task):
        site.do(f"INSERT INTO search_index_task_delta (task_id, {columns}) VALUES (%s, {zeros})", noted)
    site.cancel()
    waiting = "SELECT next_index_id, next_config, update_error FROM search_tool WHERE id = %s"
    assert site.do(waiting, site.tool) == [(None, None, tool_actions.CANCELLED)]
    ended = "SELECT status, finished_at IS NOT NULL FROM search_index_task WHERE id = ANY (%s)"
    assert site.do(ended, [site.task, new_task]) == [("cancelled", True)] * 2
    # nor does the run follow that was asked for
    assert site.do("SELECT count(*) FROM search_index_task WHERE index_id IN (%s, %s)", site.index.id, new_index) == [
        (2,)
    ]
    assert site.do(epoch, new_index) == [(before + 1, True)]
    counted = "SELECT task_id FROM search_index_task_delta WHERE task_id = ANY (%s)"
    assert site.do(counted, [new_task, other.task]) == [(other.task,)]
    changed = "SELECT since IS NULL, due_at FROM search_index_change WHERE index_id = %s"
    assert site.do(changed, site.index.id) == [(False, None)]
    # what answers queries stays
    assert site.do(epoch, site.index.id)[0][1] is False


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_history_of_a_tool_tells_of_the_index_that_is_being_built(site: Site, limit: int) -> None:
    _, new_task = building(site)
    # of another tool
    Site(site.resources, site.folder)
    listed: list[UUID] = []
    before = None
    for _ in range(3):
        for task in statuses.history(site.pool, site.tool, before, limit):
            listed.append(task.task_id)
            before = task.created_at, task.task_id
    assert listed == [new_task, site.task]


def test_a_deleted_tool_takes_both_its_indexes_along(site: Site) -> None:
    old, (new_index, new_task) = site.index.id, building(site)
    tools.delete(site.pool, site.tool)
    deleted = "SELECT deleted_at <= now() FROM search_index WHERE id IN (%s, %s)"
    assert site.do(deleted, old, new_index) == [(True,)] * 2
    ended = "SELECT status FROM search_index_task WHERE id IN (%s, %s)"
    assert site.do(ended, site.task, new_task) == [("cancelled",)] * 2


@pytest.mark.parametrize("other_waits", [False, True])
def test_an_index_that_another_tool_has_or_waits_for_outlives_a_cancel(
    resources: Resources, site: Site, other_waits: bool
) -> None:
    new_index, new_task = building(site)
    wanted = site.wanted(max_file_bytes=5)
    if other_waits:
        other = new_site(resources, project=site.project)
        assert tool_actions.change_config(site.pool, other.tool, ToolConfig(), wanted) is None
    else:
        tools.create(site.pool, wanted, name="", config=ToolConfig())
    site.cancel()
    assert site.do("SELECT deleted_at FROM search_index WHERE id = %s", new_index) == [(None,)]
    assert site.do("SELECT status FROM search_index_task WHERE id = %s", new_task) == [("pending",)]


def test_a_run_that_is_asked_for_also_follows_in_the_index_that_is_being_built(site: Site) -> None:
    _, new_task = building(site)
    tool_actions.reindex(site.pool, site.tool, full=True, allow_removals=True)
    asked = "SELECT rerun, rerun_full, rerun_allow_removals FROM search_index_task WHERE id = %s"
    assert site.do(asked, site.task) == [(True, True, True)]
    # it reads all files anyway
    assert site.do(asked, new_task) == [(True, False, True)]


@pytest.mark.parametrize("ends", ["cancel", "fail"])
@pytest.mark.parametrize("is_taken_back", [False, True])
def test_an_edit_that_an_ended_run_did_not_read_is_stale(site: Site, ends: str, is_taken_back: bool) -> None:
    def date(seconds: int, *paths: Path) -> None:
        for path in paths:
            os.utime(path, (1_000_000_000 + seconds,) * 2)

    date(0, *site.folder.iterdir())
    site.finish_all()
    edited = site.folder / "0.md"
    before = edited.read_text()
    edited.write_text(before.replace("apples", "quince"))
    date(1, edited)
    site.again()
    if ends == "cancel":
        site.cancel()
    else:
        stop(site)
    if is_taken_back:
        edited.write_text(before)
        date(1, edited)
    assert compare(site.resources, site.index, Disconnect()).total == 1
    site.again()
    site.finish_all()
    assert compare(site.resources, site.index, Disconnect()).total == 0
