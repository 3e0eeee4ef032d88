"""Rows that stand at the same place of a list: each is on one page, whatever the pages' size; directly on the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from schemas.tool import ToolConfig
from tests.integration.steps.site import Site, listed_site
from worker.resources import Resources
from worker.state.index import file_lookup, statuses, tools

#: Rows of each list.
ROWS = 3


@pytest.fixture(scope="module")
def site(resources: Resources) -> Site:
    """A tool with files of one path and tasks of one time, in a project of tools of one time."""
    made = listed_site(resources, ROWS)
    made.do("UPDATE search_index_file SET path = 'same.md' WHERE index_id = %s", made.index.id)
    for number in range(1, ROWS):
        tools.create(made.pool, made.wanted(), name=f"{number}", config=ToolConfig())
        made.copy_row("search_index_task", made.task, status="ready")
    made.do("UPDATE search_tool SET created_at = '2026-01-01' WHERE project_id = %s", made.project)
    return made


Read = Callable[[Site, Any, int], Sequence[Any]]
LISTS: dict[str, tuple[Read, tuple[str, str]]] = {
    "files": (
        lambda s, after, limit: file_lookup.page(s.pool, s.index.id, file_lookup.Wanted(after=after), limit=limit),
        ("file_path", "file_id"),
    ),
    "tools": (lambda s, after, limit: tools.page(s.pool, s.project, after, limit), ("created_at", "tool_id")),
    "statuses": (
        lambda s, after, limit: statuses.newest_of_tools(s.pool, s.project, after, limit),
        ("tool_created_at", "tool_id"),
    ),
    "history": (lambda s, before, limit: statuses.history(s.pool, s.tool, before, limit), ("created_at", "task_id")),
}


@pytest.mark.parametrize("size", [1, 2, ROWS])
@pytest.mark.parametrize("name", LISTS)
def test_rows_at_one_place_of_a_list_are_each_on_one_page(site: Site, name: str, size: int) -> None:
    read, (place, id_) = LISTS[name]
    found: list[Any] = []
    after = None
    while rows := read(site, after, size):
        assert len(rows) <= size
        found += rows
        assert len(found) <= ROWS
        after = getattr(rows[-1], place), getattr(rows[-1], id_)
    assert len({getattr(row, id_) for row in found}) == ROWS
    assert len({getattr(row, place) for row in found}) == 1
