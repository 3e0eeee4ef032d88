"""Runs over the paths that were noted as changed, and over everything where they are in doubt; on the rows."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from schemas.tool import ToolConfig
from tests.integration.steps.following import local_site, nodes_site
from tests.integration.steps.site import Site
from worker.resources import Resources
from worker.state.index import changes, tool_actions

pytestmark = pytest.mark.usefixtures("nobody_else")


def later(site: Site, seconds: float) -> None:
    """Let time pass for what was noted."""
    site.do(
        "UPDATE search_index_change SET since = since - s, due_at = due_at - s, ran_at = ran_at - s,"
        " rest_until = rest_until - s"
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
        changes.note_change(resources.pool, site.index.id, paths=paths or None)

    note("a.md")
    note("b", "a.md")
    assert noted(site) == ["a.md", "b"]
    note("c.md")
    assert noted(site) == ["c.md"]
    for first, second in ((("a.md",), ()), ((), ("a.md",))):
        note(*first)
        note(*second)
        assert noted(site) is None
    # a run over some paths does not stand for one that the clock asks for
    note("a.md")
    every = "UPDATE search_tool SET next_run_at = now(), config = config || '{\"every\": 60}' WHERE id = %s RETURNING 1"
    site.do(every, site.tool)
    site.do("UPDATE search_index_task SET paths = '{b.md}' WHERE index_id = %s AND status = 'pending'", site.index.id)
    changes.schedule(resources.pool)
    site.do("UPDATE search_tool SET next_run_at = NULL WHERE id = %s", site.tool)
    assert noted(site) is None


def test_paths_are_joined_each_once_unless_any_is_unknown_or_there_are_too_many(site: Site) -> None:
    known = [None, [], ["a"], ["a", "b"], ["b", "c"], ["a", "b", "c", "d"]]
    for paths, others in product(known, known):
        joined = None if paths is None or others is None else sorted({*paths, *others})
        expected = joined if joined is not None and len(joined) <= 3 else None
        assert site.do("SELECT joined_paths(%s::text[], %s::text[], 3)", paths, others) == [(expected,)]


@pytest.mark.parametrize(("number", "kept"), [(999, True), (1000, False)])
def test_beyond_so_many_paths_everything_is_listed(resources: Resources, number: int, kept: bool) -> None:
    site = local_site(resources)
    changes.note_change(resources.pool, site.index.id, paths=["a.md"])
    changes.note_change(resources.pool, site.index.id, paths=[f"{each}.md" for each in range(number)])
    paths = noted(site)
    assert (paths is not None and len(paths) == 1000) == kept


def test_a_watch_hardly_rests_after_a_run_over_some_paths(resources: Resources) -> None:
    site = local_site(resources)
    rest = timedelta(seconds=60)
    for _ in range(2):
        changes.note_change(resources.pool, site.index.id, rest=rest)
        noted(site, 60)
    due = changes.note_change(resources.pool, site.index.id, paths=["a.md"], rest=rest)
    assert due is not None
    assert 2 < due <= 3
    due = changes.note_change(resources.pool, site.index.id, rest=rest)
    assert due is not None
    assert 50 < due <= 60


def test_edits_of_nodes_are_noted_by_their_ids_and_those_of_the_root_as_everything(resources: Resources) -> None:
    site = nodes_site(resources)
    root = f"/{site.index.source.content_node}"

    def edit(*paths: str) -> None:
        with resources.pool.connection() as connection:
            changes.pass_on_change(connection, site.project, paths)

    edit(f"{root}/a/b")
    edit(f"{root}/c", "/elsewhere", f"{root}-2/d")
    assert noted(site) == ["b", "c"]
    edit(f"{root}/a", root)
    assert noted(site) is None


@pytest.mark.parametrize(("number", "kept"), [(1000, True), (1001, False)])
def test_beyond_so_many_edits_of_nodes_everything_is_listed(resources: Resources, number: int, kept: bool) -> None:
    site = nodes_site(resources)
    root = site.index.source.content_node
    with resources.pool.connection() as connection:
        changes.pass_on_change(connection, site.project, [f"/{root}/{each}" for each in range(number)])
    paths = noted(site)
    assert (paths is not None and len(paths) == number) == kept


@pytest.mark.parametrize(
    ("begun", "follows", "expected"),
    [
        (True, False, (None, True, ["a", "b", "c"])),
        (True, True, (None, False, None)),
        (False, False, (["a", "b", "c", "z"], False, None)),
        (False, True, (["z"], False, None)),
    ],
)
def test_edits_of_nodes_are_for_the_next_run_unless_it_is_asked_for_anyway(
    resources: Resources, begun: bool, follows: bool, expected: tuple[Any, ...]
) -> None:
    site = nodes_site(resources)
    site.do("UPDATE search_tool SET config = jsonb_build_object('auto_reindex', %s) WHERE id = %s", follows, site.tool)
    if begun:
        site.list_folder()
    else:
        site.do("UPDATE search_index_task SET paths = '{z}' WHERE id = %s", site.task)
    root = f"/{site.index.source.content_node}"
    for edited in ([f"{root}/a"], [f"{root}/b", f"{root}/b/c"]):
        with resources.pool.connection() as connection:
            changes.pass_on_change(connection, site.project, edited)
    assert site.do("SELECT paths, rerun, rerun_paths FROM search_index_task WHERE id = %s", site.task) == [expected]


@pytest.mark.parametrize("follows", [False, True])
def test_an_edit_during_a_build_reaches_the_new_index_as_its_config_says(resources: Resources, follows: bool) -> None:
    site = nodes_site(resources)
    root, old = f"/{site.index.source.content_node}", site.index.id
    site.do("UPDATE search_tool SET config = jsonb_build_object('auto_reindex', %s)", not follows)
    new_config = ToolConfig(auto_reindex=follows)
    build = tool_actions.change_config(site.pool, site.tool, new_config, site.wanted(max_file_bytes=5))
    ((new,),) = site.do("SELECT next_index_id FROM search_tool WHERE id = %s", site.tool)
    site.do("UPDATE search_index_task SET status = 'indexing' WHERE index_id IN (%s, %s)", old, new)
    with resources.pool.connection() as connection:
        changes.pass_on_change(connection, site.project, [f"{root}/a"])
    noted_for = {index for (index,) in site.do("SELECT index_id FROM search_index_change WHERE due_at IS NOT NULL")}
    assert ({old, new} & noted_for) == {old if not follows else new}
    assert site.do("SELECT rerun FROM search_index_task WHERE id = %s", build) == [(not follows,)]
    # the switch comes before the run is due
    site.do(
        "UPDATE search_tool SET index_id = %s, config = next_config, next_index_id = NULL WHERE id = %s", new, site.tool
    )
    site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", new)
    started = None
    if new in noted_for:
        site.do("UPDATE search_index_change SET due_at = now() WHERE index_id = %s", new)
        started = changes.start(resources.pool, new, timedelta(0))
    assert (started is not None) == follows


@pytest.mark.parametrize("is_running", [False, True])
def test_what_a_cancel_let_be_is_listed_by_the_next_run_over_changes(resources: Resources, is_running: bool) -> None:
    site = nodes_site(resources)
    root = f"/{site.index.source.content_node}"

    def edit(name: str) -> None:
        with resources.pool.connection() as connection:
            changes.pass_on_change(connection, site.project, [f"{root}/{name}"])

    edit("a")
    if is_running:
        # the run takes up the edit
        noted(site)
        site.do("UPDATE search_index_task SET listing = false WHERE index_id = %s", site.index.id)
    site.cancel()
    later(site, 60)
    assert changes.due(resources.pool) == []
    # `noted` ends the newest run as a retry would, which lists nothing again
    edit("b")
    # the edit waits for quiet like any other
    assert changes.due(resources.pool) == []
    assert noted(site) is None
    edit("c")
    assert noted(site) == ["c"]


@pytest.mark.parametrize("begun", [False, True])
def test_an_open_run_and_the_one_that_follows_get_the_paths_that_were_noted(resources: Resources, begun: bool) -> None:
    site = local_site(resources)
    site.list_folder()
    changes.note_change(resources.pool, site.index.id, paths=["a.md"])
    noted(site)
    site.do("UPDATE search_index_task SET status = %s WHERE status = 'pending'", "indexing" if begun else "pending")
    for path in ("b.md", "c.md"):
        changes.note_change(resources.pool, site.index.id, paths=[path])
        later(site, 10)
        assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    open_ = "SELECT paths, rerun, rerun_paths FROM search_index_task WHERE index_id = %s AND finished_at IS NULL"
    found = site.do(f"{open_} AND status IN ('pending', 'indexing')", site.index.id)
    assert found == [(["a.md"], True, ["b.md", "c.md"]) if begun else (["a.md", "b.md", "c.md"], False, None)]
