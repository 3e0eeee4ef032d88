"""When runs follow changes of folders and schedules, and what one round takes; directly on the rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from schemas.tool import ToolConfig
from tests.integration.steps.following import Changes, change_files, change_nodes, local_site, nodes_site
from tests.integration.steps.site import Site, listed_site, new_site, passes
from worker.resources import Resources
from worker.state.index import changes, drift, embedding_cache, leftovers, tasks, tool_actions, tools
from worker.state.index.embedding_cache import VectorOwner
from worker.tasks import process, upkeep

pytestmark = pytest.mark.usefixtures("nobody_else")


KINDS = [(local_site, change_files), (nodes_site, change_nodes)]


@pytest.mark.parametrize(("new", "change"), KINDS)
def test_a_run_waits_for_quiet(resources: Resources, new: Callable[[Resources], Site], change: Changes) -> None:
    site = new(resources)
    change(resources, site)
    passes(resources, changes.QUIET.total_seconds() - 1)
    change(resources, site)
    passes(resources, changes.QUIET.total_seconds() - 0.5)
    assert changes.due(resources.pool) == []
    passes(resources, 0.6)
    assert changes.due(resources.pool) == [site.index.id]


@pytest.mark.parametrize(("new", "change"), KINDS)
def test_an_edit_each_second_puts_a_run_off_for_no_longer_than_the_patience(
    resources: Resources, new: Callable[[Resources], Site], change: Changes
) -> None:
    site = new(resources)
    begun, passed = time.monotonic(), 0
    longest = changes.LONGEST_DELAY.total_seconds()
    waited = 0.0
    while not changes.due(resources.pool):
        assert waited < longest + 1
        change(resources, site)
        passes(resources, 1)
        passed += 1
        # the time that the steps themselves take counts too
        waited = passed + time.monotonic() - begun
    assert passed + time.monotonic() - begun >= longest == 15
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    started = changes.start(resources.pool, site.index.id, timedelta(0))
    assert started is not None
    assert changes.due(resources.pool) == []
    # the next edit has its own quiet period and its own longest wait
    change(resources, site)
    passes(resources, 1)
    assert changes.due(resources.pool) == []
    passes(resources, 1.1)
    assert changes.due(resources.pool) == [site.index.id]


def test_an_open_task_is_followed_by_one_further(resources: Resources) -> None:
    site = local_site(resources)
    rerun = "SELECT rerun FROM search_index_task WHERE id = %s"
    for begun in (False, True):
        if begun:
            site.list_folder()
        change_files(resources, site)
        passes(resources, 10)
        assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
        # a task that has not begun sees the change anyway
        assert site.do(rerun, site.task) == [(begun,)]
    assert changes.due(resources.pool) == []


def test_a_run_is_the_oldest_tools_that_follows_the_folder(resources: Resources) -> None:
    site = new_site(resources)
    newer, older = (tools.create(site.pool, site.wanted(), name="", config=ToolConfig(watch=True))[0] for _ in range(2))
    # the older one was written last
    site.do("UPDATE search_tool SET created_at = created_at - interval '1 h' WHERE id = %s", older)
    for follows, owner in (("true", older), ("false", newer)):
        site.do("""UPDATE search_tool SET config = jsonb_set(config, '{watch}', %s) WHERE id = %s""", follows, older)
        site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
        change_files(resources, site)
        passes(resources, 10)
        started = changes.start(resources.pool, site.index.id, timedelta(0))
        assert started is not None
        assert started.tool_id == owner


def watched_nodes_site(resources: Resources) -> Site:
    site = nodes_site(resources)
    site.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", site.tool)
    return site


def edit_watched_nodes(resources: Resources, site: Site) -> None:
    site.do("UPDATE content_node SET name = name || 'x' WHERE project_id = %s", site.project)
    changes.look_at_nodes(resources.pool, site.index.id)


@pytest.mark.parametrize(("new", "change"), [(local_site, change_files), (watched_nodes_site, edit_watched_nodes)])
def test_a_watch_rests_after_a_run_but_not_after_the_first(
    resources: Resources, new: Callable[[Resources], Site], change: Changes
) -> None:
    site = new(resources)
    rest = timedelta(seconds=60)
    for rests in (False, True):
        site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
        change(resources, site)
        passes(resources, 10)
        assert changes.start(resources.pool, site.index.id, rest) is not None
        change(resources, site)
        passes(resources, 10)
        assert changes.due(resources.pool) == ([] if rests else [site.index.id])
    passes(resources, 60)
    assert changes.due(resources.pool) == [site.index.id]


def test_nodes_that_did_not_change_start_no_run(resources: Resources) -> None:
    site = watched_nodes_site(resources)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
    for changed in (True, False, True):
        if changed:
            edit_watched_nodes(resources, site)
        changes.look_at_nodes(resources.pool, site.index.id)
        passes(resources, 10)
        assert changes.due(resources.pool) == ([site.index.id] if changed else [])
        changes.start(resources.pool, site.index.id, timedelta(0))


def test_looks_that_find_further_edits_put_no_run_off(resources: Resources) -> None:
    site = watched_nodes_site(resources)
    edit_watched_nodes(resources, site)
    passes(resources, changes.QUIET.total_seconds() - 0.5)
    assert changes.due(resources.pool) == []
    edit_watched_nodes(resources, site)
    passes(resources, 0.6)
    assert changes.due(resources.pool) == [site.index.id]


def test_what_is_taken_up_twice_starts_one_run(resources: Resources) -> None:
    site = local_site(resources)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    change_files(resources, site)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    passes(resources, 10)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is not None
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    assert len(site.do("SELECT id FROM search_index_task WHERE index_id = %s", site.index.id)) == 2


@pytest.mark.parametrize(("code", "waits"), [("folder_gone", False), ("no_file_indexed", True), (None, True)])
def test_a_watch_does_not_rest_after_a_run_that_found_no_folder(
    resources: Resources, code: str | None, waits: bool
) -> None:
    site, rest = local_site(resources), timedelta(seconds=60)
    for ended in (None, code):
        site.do("UPDATE search_index_task SET status = 'error' WHERE index_id = %s", site.index.id)
        changes.note_change(resources.pool, site.index.id, quiet=timedelta(0))
        passes(resources, 1)
        started = changes.start(resources.pool, site.index.id, rest)
        assert started is not None
        site.do("UPDATE search_index_task SET error_code = %s WHERE id = %s", ended, started.task_id)
    due = changes.note_change(resources.pool, site.index.id, quiet=timedelta(0))
    assert due is not None
    assert (due > rest.total_seconds() / 2) == waits


def test_nobody_runs_for_a_tool_that_follows_no_more(resources: Resources) -> None:
    site = local_site(resources)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    site.do("UPDATE search_tool SET config = '{}' WHERE id = %s", site.tool)
    change_files(resources, site)
    passes(resources, 10)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None


def started_by_a_change(site: Site) -> UUID | None:
    change_files(site.resources, site)
    passes(site.resources, 10)
    started = changes.start(site.resources.pool, site.index.id, timedelta(0))
    return started.task_id if started else None


def started_by_a_request(site: Site) -> UUID | None:
    return tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False)


def started_by_a_retry(site: Site) -> UUID | None:
    site.do("UPDATE search_index_task SET listing = false WHERE index_id = %s", site.index.id)
    site.do("UPDATE search_index_file SET status = 'failed' WHERE index_id = %s", site.index.id)
    started = tool_actions.retry(site.pool, site.tool)
    return started.id if started else None


@pytest.mark.parametrize("start", [started_by_a_change, started_by_a_request, started_by_a_retry])
def test_the_rows_of_old_runs_go(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, start: Callable[[Site], UUID | None]
) -> None:
    monkeypatch.setattr(tasks, "KEPT_TASKS", 3)
    site = local_site(resources)
    site.list_folder()
    newest = None
    for _ in range(4):
        site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
        newest = start(site)
        assert newest is not None
    kept = site.do("SELECT id FROM search_index_task WHERE index_id = %s ORDER BY created_at DESC", site.index.id)
    assert len(kept) == 3
    assert kept[0] == (newest,)


def test_the_rows_of_files_that_were_removed_long_ago_go(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "resources", lambda: resources)
    monkeypatch.setattr(leftovers, "ROWS", 2)
    site, other = listed_site(resources, 7), listed_site(resources, 7)
    for each in (site, other):
        each.finish_all()
        for path, days in [*((f"{number}.md", 31) for number in range(5)), ("5.md", 29)]:
            each.do(
                "UPDATE search_index_file SET status = 'removed', updated_at = now() - make_interval(days => %s)"
                " WHERE index_id = %s AND path = %s",
                *(days, each.index.id, path),
            )
        each.do(
            "UPDATE search_index_file SET updated_at = '2020-01-01' WHERE index_id = %s AND path = '6.md'",
            each.index.id,
        )
    upkeep._check(site.index.id)
    assert site.outcomes() == {"5.md": "removed", "6.md": "indexed"}
    assert len(other.outcomes()) == 7


# --- more than one round takes


def many_tools(resources: Resources, number: int, config: ToolConfig) -> list[UUID]:
    """Tools over separate folders. Returns their indexes, in order."""
    site = new_site(resources, 0)
    made = []
    for place in range(number):
        source = site.wanted().source.model_copy(update={"path": f"/many/{place}"})
        wanted = site.wanted()
        tool, _ = tools.create(
            resources.pool,
            type(wanted)(site.project, source, f"h.{place}", wanted.settings, "lancedb", "store"),
            name="",
            config=config,
        )
        found = tools.index_of_tool(resources.pool, tool)
        assert found is not None
        made.append(found.id)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE status = 'pending'")
    return made


def test_folders_beyond_one_round_are_taken_up_by_the_next(resources: Resources) -> None:
    indexes = many_tools(resources, 51, ToolConfig(watch=True))
    for index_id in indexes:
        changes.note_change(resources.pool, index_id, quiet=timedelta(0))
    with resources.pool.connection() as connection:
        for place, index_id in enumerate(indexes):
            late = timedelta(minutes=1 + place)
            connection.execute(
                "UPDATE search_index_change SET due_at = now() - %s WHERE index_id = %s", (late, index_id)
            )
    taken: list[UUID] = []
    rounds = 0
    while due := changes.due(resources.pool):
        rounds += 1
        taken += due
        for index_id in due:
            assert changes.start(resources.pool, index_id, timedelta(0)) is not None
    # those that have waited longest come first, and none is requested twice
    assert taken == indexes[::-1]
    assert rounds == 2


def test_schedules_beyond_one_round_are_met_by_the_next(resources: Resources) -> None:
    indexes = many_tools(resources, 101, ToolConfig(every=3600))
    with resources.pool.connection() as connection:
        connection.execute("UPDATE search_tool SET next_run_at = now() - interval '1 s' WHERE next_run_at IS NOT NULL")
    noted = []
    for _ in range(3):
        changes.schedule(resources.pool)
        with resources.pool.connection() as connection:
            noted.append(connection.execute("SELECT count(*) FROM search_index_change").fetchone())
    assert noted == [(100,), (101,), (101,)]
    with resources.pool.connection() as connection:
        (next_,) = connection.execute(
            "SELECT min(next_run_at) > now() + interval '59 min' FROM search_tool"
        ).fetchone() or (None,)
    assert next_
    assert len(indexes) == 101


def test_checks_beyond_one_round_are_made_by_the_next(resources: Resources) -> None:
    indexes = many_tools(resources, drift.MAX_CHECKS + 1, ToolConfig())
    with resources.pool.connection() as connection:
        connection.execute("UPDATE search_index SET checked_at = now() - interval '2 h' WHERE id = ANY (%s)", [indexes])
    rounds = [drift.take_due(resources.pool) for _ in range(3)]
    assert [len(found) for found in rounds] == [drift.MAX_CHECKS, 1, 0]
    assert {*rounds[0], *rounds[1]} == {*indexes}


@pytest.mark.parametrize(
    ("idle", "rested", "due"),
    [
        # at first hourly, then after as long as nothing happened, and at least daily
        (0.1, 0.9, False),
        (0.1, 1.1, True),
        (5, 4.9, False),
        (5, 5.1, True),
        (500, 23.9, False),
        (500, 24.1, True),
    ],
)
def test_an_index_where_nothing_happens_is_checked_less_often(
    resources: Resources, idle: float, rested: float, due: bool
) -> None:
    site = listed_site(resources, 1)
    site.finish_all()
    before = "now() - make_interval(secs => 3600 * %s)"
    site.do(f"UPDATE search_index_task SET created_at = {before} WHERE index_id = %s", idle, site.index.id)
    drift.note_compared(site.pool, site.index.id)
    site.do(f"UPDATE search_index SET checked_at = {before} WHERE id = %s", rested, site.index.id)
    assert drift.take_due(site.pool) == [site.index.id] * due
    assert drift.take_due(site.pool) == []
    # a search that found nothing asks at any time, but not just after a comparison
    drift.note_compared(site.pool, site.index.id)
    assert not drift.request_comparison(site.pool, site.index.id)
    site.do("UPDATE search_index SET checked_at = now() - interval '2 min' WHERE id = %s", site.index.id)
    assert drift.request_comparison(site.pool, site.index.id)
    assert drift.take_due(site.pool) == [site.index.id]


def test_a_repair_changes_no_other_index(resources: Resources) -> None:
    site, other = (listed_site(resources, 1) for _ in range(2))
    damage = (
        "UPDATE search_index_file SET live_chunks = 7, lost = true WHERE index_id = %s",
        "UPDATE chunk SET live = false WHERE index_id = %s",
        "INSERT INTO chunk_tombstone (id, index_id, created_at) SELECT gen_random_uuid(), %s, now() - interval '1 day'",
    )

    def state() -> list[Any]:
        queries = (
            "SELECT live_chunks, stamp, status, work FROM search_index_file WHERE index_id = %s",
            "SELECT count(*) FROM chunk WHERE index_id = %s",
            "SELECT count(*) FROM chunk_tombstone WHERE index_id = %s",
        )
        return [other.do(query, other.index.id) for query in queries]

    for each in (site, other):
        each.finish_all()
        for statement in damage:
            each.do(statement, each.index.id)
    before = state()
    assert len(drift.overdue(site.pool, site.index.id, 10)) == 1
    assert drift.recount(site.pool, site.index.id) == 1
    assert drift.bury_unfinished(site.pool, site.index.id) == 1
    ((epoch,),) = site.do("SELECT epoch FROM search_index WHERE id = %s", site.index.id)
    assert drift.take_up(site.pool, site.index.id, site.task, epoch) == 1
    assert state() == before


def test_the_oldest_tool_owns_a_run_that_no_tool_requested(resources: Resources) -> None:
    site = listed_site(resources, 1)
    site.finish_all()
    second, task = tools.create(site.pool, site.wanted(), name="", config=ToolConfig())
    assert task is not None
    site.task = task
    site.list_folder()
    site.finish_all()
    site.do("UPDATE search_tool SET created_at = now() - interval '1 day' WHERE id = %s", second)
    site.do("UPDATE search_index_file SET lost = true WHERE index_id = %s", site.index.id)
    started = drift.start(site.pool, site.index.id)
    assert site.do("SELECT tool_id FROM search_index_task WHERE id = %s", started) == [(second,)]


@pytest.mark.parametrize("follows", [False, True])
def test_a_tool_that_starts_to_follow_edits_takes_up_earlier_ones(resources: Resources, follows: bool) -> None:
    site = nodes_site(resources)
    site.do(
        "UPDATE search_tool SET config = %s WHERE id = %s", '{"auto_reindex": true}' if follows else "{}", site.tool
    )
    with resources.pool.connection() as connection:
        changes.follow_from_now(connection, site.tool)
    assert changes.due(resources.pool) == ([] if follows else [site.index.id])


def test_a_text_is_found_in_the_newest_indexes_only(resources: Resources) -> None:
    """If there are more than can be checked in a moment, the newest fifty."""
    site = listed_site(resources, 1)
    site.finish_all()
    ((text_hash,),) = site.do("SELECT content_hash FROM chunk WHERE index_id = %s", site.index.id)
    owner = VectorOwner(site.project, site.index.settings.embedder)

    def found() -> list[tuple[str, str, UUID]]:
        return embedding_cache.live_elsewhere(resources.pool, owner, "lancedb", [text_hash])

    assert [namespace for _, namespace, _ in found()] == [site.index.namespace]
    copied = (
        "INSERT INTO search_index (id, project_id, identity, source, folder_node_id, settings, vector_store,"
        " keyword_index, namespace) SELECT gen_random_uuid(), project_id, n::text, source, folder_node_id, settings,"
        " vector_store, keyword_index, namespace || n FROM search_index, generate_series(%s::int, %s::int) n"
        " WHERE id = %s"
    )
    site.do(copied, 1, 49, site.index.id)
    assert len(found()) == 1
    site.do(copied, 50, 50, site.index.id)
    assert found() == []


@pytest.mark.parametrize(("paths", "is_noted"), [(None, False), (["a.md"], True)])
def test_a_scheduled_run_over_the_whole_folder_is_not_one_over_some_paths(
    site: Site, paths: list[str] | None, is_noted: bool
) -> None:
    site.do(
        "UPDATE search_tool SET config = config || '{\"every\": 3600}', next_run_at = now() WHERE id = %s", site.tool
    )
    site.do("UPDATE search_index_task SET paths = %s WHERE id = %s", paths, site.task)
    changes.schedule(site.pool)
    noted = "SELECT paths FROM search_index_change WHERE index_id = %s AND due_at <= now()"
    assert site.do(noted, site.index.id) == ([(None,)] if is_noted else [])
    assert site.do("SELECT next_run_at > now() FROM search_tool WHERE id = %s", site.tool) == [(True,)]
