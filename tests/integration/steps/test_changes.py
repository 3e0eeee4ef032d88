"""Changes in folders: which are recorded, and which are not recorded again."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from schemas.content.source import NodesSource
from tests.integration.steps.following import nodes_site
from tests.integration.steps.site import Site
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, StoredContent
from worker.state.index import changes, tool_actions


def is_noted(site: Site) -> bool:
    """Whether a run of the index is waiting for its time."""
    return site.do("SELECT due_at IS NOT NULL FROM search_index_change WHERE index_id = %s", site.index.id) == [(True,)]


def run(site: Site) -> None:
    """Process the recorded changes, as if they were due."""
    site.do("UPDATE search_index_change SET due_at = now() WHERE index_id = %s", site.index.id)
    changes.start(site.pool, site.index.id, timedelta(0))


def insert(site: Site, name: str, parent: str | None, *, id_: str | None = None, project: str | None = None) -> None:
    node = NewNode(id_ or uuid4().hex, parent, name, "folder")
    nodes.insert(site.pool, project or site.project, node, StoredContent())


def test_a_look_notes_nodes_that_changed_since_the_last_one(resources: Resources) -> None:
    site = nodes_site(resources)
    root = site.index.source.content_node or ""
    # a tool that follows edits records each change itself
    site.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", site.tool)
    for edits in (0, 1):
        if edits:
            insert(site, "new", root)
        changes.look_at_nodes(site.pool, site.index.id)
        assert is_noted(site)
        run(site)
        assert not is_noted(site)
        changes.look_at_nodes(site.pool, site.index.id)
        assert not is_noted(site)


def test_a_look_sees_no_nodes_beside_the_folder(resources: Resources) -> None:
    site = nodes_site(resources)
    root, other = site.index.source.content_node or "", f"p-{uuid4().hex}"
    site.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", site.tool)
    changes.look_at_nodes(site.pool, site.index.id)
    run(site)
    # in the order of the paths some are between the folder and what is in it
    for id_ in (f"{root}-2", f"{root}.2", f"{root}0", f"{root}2", root[:-1]):
        insert(site, "beside", None, id_=id_)
        insert(site, "in", id_)
    insert(site, "equal", None, id_=root, project=other)
    insert(site, "in", root, project=other)
    changes.look_at_nodes(site.pool, site.index.id)
    assert not is_noted(site)
    insert(site, "in", root)
    changes.look_at_nodes(site.pool, site.index.id)
    assert is_noted(site)


#: The folders of content: those named `top…` begin alike.
NODES = {"top": None, "in": "top", "deep": "in", "top-2": None, "topx": None}


@pytest.mark.parametrize("edited", ["/top", "/top/in", "/top/in/deep", "/top-2", "/topx"])
def test_an_edit_is_noted_for_what_follows_a_folder_above_or_below_it(resources: Resources, edited: str) -> None:
    projects = [f"p-{uuid4().hex}" for _ in range(2)]
    sites = {}
    for project, root in product(projects, NODES):
        made = Site(resources, resources.home, project=project, source=NodesSource(node_id=root))
        insert(made, root, NODES[root], id_=root)
        sites[project, root] = made
    id_paths = {root: nodes.id_paths(resources.pool, projects[0], [root])[root] for root in NODES}
    following = "UPDATE search_tool SET config = %s, next_index_id = %s, next_config = %s WHERE id = %s"
    for follows, waits in product((True, False), (True, False)):
        for (project, root), site in sites.items():
            # the tool over `topx` does not follow edits, but one that does may wait for its index
            next_ = sites[project, "topx"].index.id if waits and root == "top-2" else None
            config = Jsonb({"auto_reindex": follows and root != "topx"})
            site.do(following, config, next_, config if next_ else None, site.tool)
            site.do("DELETE FROM search_index_change WHERE index_id = %s", site.index.id)
        with resources.pool.connection() as connection:
            changes.pass_on_change(connection, projects[0], [edited])
        for (project, root), site in sites.items():
            path = id_paths[root]
            touches = f"{edited}/".startswith(f"{path}/") or path.startswith(f"{edited}/")
            followed = root != "topx" or waits
            expected = project == projects[0] and follows and followed and touches
            assert is_noted(site) == expected, (follows, waits, root)


def test_only_a_run_that_is_due_is_put_off(site: Site) -> None:
    minutes = "SELECT round(extract(epoch FROM due_at - now()) / 60)::int FROM search_index_change WHERE index_id = %s"
    changes.note_change(site.pool, site.index.id, quiet=timedelta(seconds=10))
    for due, expected in ((-1, 30), (10, 10)):
        set_due = "UPDATE search_index_change SET due_at = now() + make_interval(mins => %s) WHERE index_id = %s"
        site.do(set_due, due, site.index.id)
        changes.postpone(site.pool, site.index.id, timedelta(minutes=30))
        assert site.do(minutes, site.index.id) == [(expected,)]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_schedule_asks_for_no_run_beside_an_open_one(site: Site, is_open: bool) -> None:
    if not is_open:
        site.finish_all()
    site.do(
        """UPDATE search_tool SET config = '{"every": 3600}', next_run_at = now() WHERE id = %s""",
        site.tool,
    )
    changes.schedule(site.pool)
    assert is_noted(site) is not is_open
    # it becomes due either way
    next_ = "SELECT next_run_at > now() + interval '59 min' FROM search_tool WHERE id = %s"
    assert site.do(next_, site.tool) == [(True,)]
    started = changes.start(site.pool, site.index.id, timedelta(0))
    assert (None if started is None else started.tool_id) == (None if is_open else site.tool)


def test_after_a_cancel_nothing_runs_for_what_was_asked_or_noted_before(site: Site) -> None:
    assert tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False) is None
    changes.note_change(site.pool, site.index.id)
    site.cancel()
    assert site.do("SELECT status FROM search_index_task WHERE index_id = %s", site.index.id) == [("cancelled",)]
    assert not is_noted(site)
