"""What a task may spend, and what it has spent; on its row."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from schemas.errors import LeaseLost, SourceUnavailable
from schemas.tool import ToolConfig
from tests.integration.steps.following import change_nodes, nodes_site
from tests.integration.steps.site import Site
from worker.resources import Resources
from worker.state.index import changes, task_notes, tasks, tool_actions, tools


def limited(site: Site, limit: int | None) -> None:
    site.do("UPDATE search_index_task SET max_cost_tokens = %s, spent_tokens = 0 WHERE id = %s", limit, site.task)


def spent(site: Site) -> tuple[int, bool]:
    ((tokens, over),) = site.do("SELECT spent_tokens, over_cost FROM search_index_task WHERE id = %s", site.task)
    return tokens, over


def test_tokens_are_spent_up_to_the_limit_and_what_passes_it_is_not_counted(site: Site) -> None:
    limited(site, 10)
    assert (task_notes.spend(site.pool, site.task, 6), spent(site)) == (10, (6, False))
    assert (task_notes.spend(site.pool, site.task, 5), spent(site)) == (4, (6, True))
    # once a text did not fit, the task stays over its limit, whatever fits afterwards
    assert (task_notes.spend(site.pool, site.task, 4), spent(site)) == (4, (10, True))
    assert (task_notes.spend(site.pool, site.task, 1), spent(site)) == (0, (10, True))


def test_tokens_that_are_given_back_are_spent_again(site: Site) -> None:
    limited(site, 10)
    task_notes.spend(site.pool, site.task, 10)
    task_notes.give_back(site.pool, site.task, 3)
    assert spent(site) == (7, False)
    assert (task_notes.spend(site.pool, site.task, 3), spent(site)) == (3, (10, False))
    task_notes.give_back(site.pool, site.task, 11)
    assert spent(site) == (0, False)


def test_a_task_without_a_limit_spends_what_it_needs(site: Site) -> None:
    limited(site, None)
    assert (task_notes.spend(site.pool, site.task, 1_000_000), spent(site)) == (1_000_000, (1_000_000, False))


def test_a_task_that_has_ended_spends_nothing(site: Site) -> None:
    limited(site, 10)
    site.cancel()
    with pytest.raises(LeaseLost):
        task_notes.spend(site.pool, site.task, 1)
    assert spent(site) == (0, False)


@pytest.mark.parametrize(("asked", "kept"), [(6, 0), (11, 6)])
def test_a_run_after_one_that_passed_its_limit_pays_nothing_before_the_limit_is_raised(
    site: Site, asked: int, kept: int
) -> None:
    limited(site, 10)
    for tokens in (6, asked - 6):
        task_notes.spend(site.pool, site.task, tokens)
    site.cancel()
    site.start()
    assert spent(site) == (kept, False)


@pytest.mark.parametrize(
    ("of_site", "others", "expected"),
    [
        # the tool of the run under way did not ask
        (10, [20], 20),
        (10, [None], None),
        (None, [20], 20),
        # the smallest that is set
        (10, [30, 20], 20),
        (10, [None, 20], 20),
    ],
)
def test_a_run_that_was_requested_has_the_smallest_limit_of_the_tools_that_asked(
    site: Site, of_site: int | None, others: list[int | None], expected: int | None
) -> None:
    configure(site, site.tool, of_site)
    for limit in others:
        assert tool_actions.reindex(site.pool, another_tool(site, limit), full=False, allow_removals=False) is None
    assert limit_after(site) == expected


def test_requests_of_the_same_tools_are_noted_once(site: Site) -> None:
    other = another_tool(site, 20)
    for tool in (other, site.tool, other):
        assert tool_actions.retry(site.pool, tool) is None
    assert site.do("SELECT rerun_tool_ids FROM search_index_task WHERE id = %s", site.task) == [([other, site.tool],)]
    assert limit_after(site) == 20


def test_a_run_whose_tools_are_gone_has_the_limit_of_the_one_before(site: Site) -> None:
    configure(site, site.tool, 10)
    other = another_tool(site, None)
    assert tool_actions.reindex(site.pool, other, full=False, allow_removals=False) is None
    site.do("DELETE FROM search_tool WHERE id = %s", other)
    assert limit_after(site) == 10


def test_a_tool_that_is_made_during_a_run_over_some_paths_has_its_limit_in_the_next_one(site: Site) -> None:
    configure(site, site.tool, 10)
    site.do("UPDATE search_index_task SET paths = '{a}' WHERE id = %s", site.task)
    another_tool(site, 20)
    assert limit_after(site) == 20


def test_a_change_of_the_folder_asks_for_the_tool_that_follows_it(site: Site) -> None:
    configure(site, site.tool, 10)
    following = another_tool(site, 20, watch=True)
    changes.note_change(site.pool, site.index.id)
    site.do("UPDATE search_index_change SET due_at = now() WHERE index_id = %s", site.index.id)
    assert changes.start(site.pool, site.index.id, timedelta(0)) is None
    assert site.do("SELECT rerun_tool_ids FROM search_index_task WHERE id = %s", site.task) == [([following],)]
    assert limit_after(site) == 20


@pytest.mark.parametrize("follows", [False, True])
def test_an_edit_of_a_node_asks_for_the_tool_of_the_run_under_way(resources: Resources, *, follows: bool) -> None:
    site = nodes_site(resources)
    site.list_folder()
    configure(site, site.tool, 10)
    other = another_tool(site, 20, auto_reindex=follows)
    for _ in range(2):
        change_nodes(resources, site)
    # a tool that follows edits requests its own run
    expected = [] if follows else [site.tool]
    assert site.do("SELECT rerun_tool_ids FROM search_index_task WHERE id = %s", site.task) == [(expected,)]
    assert tool_actions.reindex(site.pool, other, full=False, allow_removals=False) is None
    assert limit_after(site) == (20 if follows else 10)


def configure(site: Site, tool: UUID, limit: int | None) -> None:
    config = tools.stored(ToolConfig(max_cost_tokens=limit))
    site.do("UPDATE search_tool SET config = %s WHERE id = %s", config, tool)


def another_tool(site: Site, limit: int | None, **config: bool) -> UUID:
    """A tool over the same index."""
    tool, task = tools.create(site.pool, site.wanted(), name="", config=ToolConfig(max_cost_tokens=limit, **config))
    assert task is None
    return tool


def limit_after(site: Site) -> int | None:
    """The limit of the run that follows the one under way."""
    closed = tasks.fail(site.pool, site.task, site.index.id, SourceUnavailable("gone"))
    assert closed is not None
    ((limit,),) = site.do("SELECT max_cost_tokens FROM search_index_task WHERE id = %s", closed.next_task_id)
    return None if limit is None else int(limit)
