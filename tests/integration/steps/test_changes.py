"""Changes in folders: which are recorded, and which are not recorded again."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from tests.integration.steps.following import nodes_site
from tests.integration.steps.site import Site
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.index import changes, tool_actions


def is_noted(site: Site) -> bool:
    """Whether a run of the index is waiting for its time."""
    return site.do("SELECT due_at IS NOT NULL FROM search_index_change WHERE index_id = %s", site.index.id) == [(True,)]


def run(site: Site) -> None:
    """Process the recorded changes, as if they were due."""
    site.do("UPDATE search_index_change SET due_at = now() WHERE index_id = %s", site.index.id)
    changes.start(site.pool, site.index.id, timedelta(0))


def insert(site: Site, name: str, parent: str) -> None:
    node = {"id": uuid4().hex, "parent_id": parent, "name": name, "type": "folder"}
    nodes.insert(site.pool, site.project, {**node, "json": None, "object_key": None, "size": 0, "url": None})


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


def test_after_a_cancel_nothing_runs_for_what_was_asked_or_noted_before(site: Site) -> None:
    assert tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False) is None
    changes.changed(site.pool, site.index.id)
    site.cancel()
    assert site.do("SELECT status FROM search_index_task WHERE index_id = %s", site.index.id) == [("cancelled",)]
    assert not is_noted(site)
