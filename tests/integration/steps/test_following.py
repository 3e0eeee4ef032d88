"""When runs follow changes of folders and schedules, and what one round takes; directly on the rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from schemas.content.source import NodesSource
from schemas.tool import ToolConfig
from tests.integration.steps.site import Site, listed_site, new_site, passes
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.index import changes, drift, embedding_cache, tools
from worker.state.index.embedding_cache import Owner

pytestmark = pytest.mark.usefixtures("nobody_else")


Changes = Callable[[Resources, Site], None]


def local_site(resources: Resources) -> Site:
    site = new_site(resources)
    site.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", site.tool)
    return site


def nodes_site(resources: Resources) -> Site:
    project, root = f"p-{uuid4().hex}", f"n-{uuid4().hex}"
    node = {
        "id": root,
        "parent_id": None,
        "name": "root",
        "type": "folder",
        "json": None,
        "object_key": None,
        "size": 0,
        "url": None,
    }
    nodes.insert(resources.pool, project, node)
    site = Site(resources, resources.home, project=project, source=NodesSource(node_id=root))
    site.do("""UPDATE search_tool SET config = '{"auto_reindex": true}' WHERE id = %s""", site.tool)
    return site


def change_files(resources: Resources, site: Site) -> None:
    changes.changed(resources.pool, site.index.id)


def change_nodes(resources: Resources, site: Site) -> None:
    with resources.pool.connection() as connection:
        changes.nodes_changed(connection, site.project, [f"/{site.index.source.content_node}"])


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


def test_what_is_taken_up_twice_starts_one_run(resources: Resources) -> None:
    site = local_site(resources)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    change_files(resources, site)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    passes(resources, 10)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is not None
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    assert len(site.do("SELECT id FROM search_index_task WHERE index_id = %s", site.index.id)) == 2


def later(site: Site, seconds: float) -> None:
    """Let time pass for what was noted. This write of the row does not put the paths in doubt."""
    site.do(
        "UPDATE search_index_change SET since = since - s, due_at = due_at - s, ran_at = ran_at - s,"
        " rest_until = rest_until - s, paths_by = CASE WHEN xmin = paths_by::xid THEN pg_current_xact_id() END"
        " FROM make_interval(secs => %s) s WHERE index_id = %s",
        *(seconds, site.index.id),
    )


def noted(site: Site, rest: float = 0) -> Any:
    """The paths of the run that takes up what was noted."""
    site.do("UPDATE search_index_task SET status = 'ready', listing = false WHERE index_id = %s", site.index.id)
    later(site, 10)
    started = changes.start(site.resources.pool, site.index.id, timedelta(seconds=rest))
    assert started is not None
    ((paths,),) = site.do("SELECT paths FROM search_index_task WHERE id = %s", started.task_id)
    return paths


def test_a_run_lists_the_paths_that_were_noted_and_everything_in_doubt(resources: Resources) -> None:
    site = local_site(resources)

    def note(*paths: str) -> None:
        changes.changed(resources.pool, site.index.id, paths=paths or None)

    note("a.md")
    note("b", "a.md")
    assert noted(site) == ["a.md", "b"]
    note("c.md")
    assert noted(site) == ["c.md"]
    for first, second in ((("a.md",), ()), ((), ("a.md",))):
        note(*first)
        note(*second)
        assert noted(site) is None
    # a process of an earlier release knows no paths, and means everything
    note("a.md")
    site.do("UPDATE search_index_change SET due_at = now() WHERE index_id = %s RETURNING 1", site.index.id)
    assert noted(site) is None
    # a run over some paths does not stand for one that the clock asks for
    note("a.md")
    every = "UPDATE search_tool SET next_run_at = now(), config = config || '{\"every\": 60}' WHERE id = %s RETURNING 1"
    site.do(every, site.tool)
    site.do("UPDATE search_index_task SET paths = '{b.md}' WHERE index_id = %s AND status = 'pending'", site.index.id)
    changes.schedule(resources.pool)
    site.do("UPDATE search_tool SET next_run_at = NULL WHERE id = %s", site.tool)
    assert noted(site) is None


@pytest.mark.parametrize(("number", "kept"), [(999, True), (1000, False)])
def test_beyond_so_many_paths_everything_is_listed(resources: Resources, number: int, kept: bool) -> None:
    site = local_site(resources)
    changes.changed(resources.pool, site.index.id, paths=["a.md"])
    changes.changed(resources.pool, site.index.id, paths=[f"{each}.md" for each in range(number)])
    paths = noted(site)
    assert (paths is not None and len(paths) == 1000) == kept


@pytest.mark.parametrize(("code", "waits"), [("folder_gone", False), ("no_file_indexed", True), (None, True)])
def test_a_watch_does_not_rest_after_a_run_that_found_no_folder(
    resources: Resources, code: str | None, waits: bool
) -> None:
    site, rest = local_site(resources), timedelta(seconds=60)
    for ended in (None, code):
        site.do("UPDATE search_index_task SET status = 'error' WHERE index_id = %s", site.index.id)
        changes.changed(resources.pool, site.index.id, quiet=timedelta(0))
        passes(resources, 1)
        started = changes.start(resources.pool, site.index.id, rest)
        assert started is not None
        site.do("UPDATE search_index_task SET error_code = %s WHERE id = %s", ended, started.task_id)
    due = changes.changed(resources.pool, site.index.id, quiet=timedelta(0))
    assert due is not None
    assert (due > rest.total_seconds() / 2) == waits


def test_a_watch_hardly_rests_after_a_run_over_some_paths(resources: Resources) -> None:
    site = local_site(resources)
    rest = timedelta(seconds=60)
    for _ in range(2):
        changes.changed(resources.pool, site.index.id, rest=rest)
        noted(site, 60)
    due = changes.changed(resources.pool, site.index.id, paths=["a.md"], rest=rest)
    assert due is not None
    assert 2 < due <= 3
    due = changes.changed(resources.pool, site.index.id, rest=rest)
    assert due is not None
    assert 50 < due <= 60


def test_edits_of_nodes_are_noted_by_their_ids_and_those_of_the_root_as_everything(resources: Resources) -> None:
    site = nodes_site(resources)
    root = f"/{site.index.source.content_node}"

    def edit(*paths: str) -> None:
        with resources.pool.connection() as connection:
            changes.nodes_changed(connection, site.project, paths)

    edit(f"{root}/a/b")
    edit(f"{root}/c", "/elsewhere", f"{root}-2/d")
    assert noted(site) == ["b", "c"]
    edit(f"{root}/a", root)
    assert noted(site) is None


@pytest.mark.parametrize("begun", [False, True])
def test_an_open_run_and_the_one_that_follows_get_the_paths_that_were_noted(resources: Resources, begun: bool) -> None:
    site = local_site(resources)
    site.list_folder()
    changes.changed(resources.pool, site.index.id, paths=["a.md"])
    noted(site)
    site.do("UPDATE search_index_task SET status = %s WHERE status = 'pending'", "indexing" if begun else "pending")
    for path in ("b.md", "c.md"):
        changes.changed(resources.pool, site.index.id, paths=[path])
        later(site, 10)
        assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    open_ = "SELECT paths, rerun, rerun_paths FROM search_index_task WHERE index_id = %s AND finished_at IS NULL"
    found = site.do(f"{open_} AND status IN ('pending', 'indexing')", site.index.id)
    assert found == [(["a.md"], True, ["b.md", "c.md"]) if begun else (["a.md", "b.md", "c.md"], False, None)]


def test_nobody_runs_for_a_tool_that_follows_no_more(resources: Resources) -> None:
    site = local_site(resources)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    site.do("UPDATE search_tool SET config = '{}' WHERE id = %s", site.tool)
    change_files(resources, site)
    passes(resources, 10)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None


def test_the_rows_of_old_runs_go(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEPT_RUNS", 3)
    site = local_site(resources)
    started = None
    for _ in range(4):
        site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
        change_files(resources, site)
        passes(resources, 10)
        started = changes.start(resources.pool, site.index.id, timedelta(0))
        assert started is not None
    kept = site.do("SELECT id FROM search_index_task WHERE index_id = %s ORDER BY created_at DESC", site.index.id)
    assert len(kept) == 3
    assert started
    assert kept[0] == (started.task_id,)


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
        changes.changed(resources.pool, index_id, quiet=timedelta(0))
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
    rounds = [drift.due(resources.pool) for _ in range(3)]
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
    drift.compared(site.pool, site.index.id)
    site.do(f"UPDATE search_index SET checked_at = {before} WHERE id = %s", rested, site.index.id)
    assert drift.due(site.pool) == [site.index.id] * due
    assert drift.due(site.pool) == []
    # a search that found nothing asks at any time, but not just after a comparison
    drift.compared(site.pool, site.index.id)
    assert not drift.request_comparison(site.pool, site.index.id)
    site.do("UPDATE search_index SET checked_at = now() - interval '2 min' WHERE id = %s", site.index.id)
    assert drift.request_comparison(site.pool, site.index.id)
    assert drift.due(site.pool) == [site.index.id]


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
    owner = Owner(site.project, site.index.settings.embedder)

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
