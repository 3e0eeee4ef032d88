"""When runs follow changes of folders and schedules, and what one round takes; directly on the rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from schemas.source import NodesSource
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
    changes.changed(resources.pool, [site.index.id], quiet=changes.QUIET)


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
    seconds = 0
    while not changes.due(resources.pool):
        assert seconds < 20
        change(resources, site)
        passes(resources, 1)
        seconds += 1
    assert seconds == changes.LONGEST_DELAY.total_seconds() == 15
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


def test_a_watch_rests_after_a_run_but_not_after_the_first(resources: Resources) -> None:
    site = local_site(resources)
    rest = timedelta(seconds=60)
    for rests in (False, True):
        site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
        change_files(resources, site)
        passes(resources, 10)
        assert changes.start(resources.pool, site.index.id, rest) is not None
        change_files(resources, site)
        passes(resources, 10)
        assert changes.due(resources.pool) == ([] if rests else [site.index.id])
    passes(resources, 60)
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
    changes.changed(resources.pool, indexes, quiet=timedelta(0))
    with resources.pool.connection() as connection:
        for place, index_id in enumerate(indexes):
            late = timedelta(minutes=len(indexes) - place)
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
    assert taken == indexes
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
    # a search that found nothing asks at any time
    site.do("UPDATE search_index SET checked_at = now() - interval '2 min' WHERE id = %s", site.index.id)
    assert drift.request_comparison(site.pool, site.index.id)
    assert drift.due(site.pool) == [site.index.id]


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
