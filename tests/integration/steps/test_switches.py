"""What becomes of tools and indexes as a task ends over an index that tools wait for; directly on the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

import worker.app
from api.indexers import chunks
from schemas.reindex import Reindex
from schemas.status import TaskStatus
from schemas.tool import ToolConfig
from tests.integration.steps.site import Site, new_site
from worker.resources import Resources
from worker.state.index import index_switch, tool_actions, tools

CONFIG, NEXT_CONFIG = {"every": 7200}, {"every": 3600}
PLACES = ("old", "older", "new")


@dataclass(frozen=True)
class Waiting:
    """Two tools that wait for one `new` index, each over an index of its own, and one that waits for nothing."""

    sites: dict[str, Site]
    indexes: dict[str, UUID]
    third: UUID

    def do(self, statement: str, *values: object) -> Any:
        return self.sites["new"].do(statement, *values)

    def settle(self, status: TaskStatus, error: str | None = None) -> None:
        with self.sites["new"].pool.connection() as connection:
            index_switch.lock_index(connection, self.indexes["new"])
            index_switch.settle(connection, self.indexes["new"], status, error)

    def tool(self, name: str) -> Any:
        """A tool's index, its config, what it waits for, its error, and the hours until its next run."""
        columns = "index_id, config, next_index_id, next_config, update_error"
        hours = "round(extract(epoch FROM next_run_at - now()) / 3600)::int"
        id_ = self.third if name == "third" else self.sites[name].tool
        return self.do(f"SELECT {columns}, {hours} FROM search_tool WHERE id = %s", id_)[0]

    def deleted(self, name: str) -> tuple[str | None, int]:
        """When an index is deleted, and how often its workers were shut out."""
        when = "CASE WHEN deleted_at <= now() THEN 'now' WHEN deleted_at <= now() + interval '30 s' THEN 'soon' END"
        (row,) = self.do(f"SELECT {when}, epoch FROM search_index WHERE id = %s", self.indexes[name])
        return row[0], row[1]

    def tasks(self, name: str) -> list[Any]:
        """The status of each task over an index, whether it ended just now, and whether a worker lists for it."""
        ended = "finished_at > now() - interval '1 h'"
        query = f"SELECT status, {ended}, plan_owner IS NOT NULL FROM search_index_task WHERE index_id = %s"
        found: list[Any] = self.do(f"{query} ORDER BY status DESC", self.indexes[name])
        return found


def waiting(resources: Resources, place: str) -> Waiting:
    """The third tool is over the index in this `place`. Each index has a task that is open and one that ended."""
    site = new_site(resources, 1)
    sites = {"old": site} | {name: new_site(resources, 1, project=site.project) for name in PLACES[1:]}
    made = Waiting(sites, {name: each.index.id for name, each in sites.items()}, sites["new"].tool)
    for name in ("old", "older"):
        wait = "UPDATE search_tool SET config = %s, next_index_id = %s, next_config = %s, update_error = 'earlier'"
        made.do(f"{wait} WHERE id = %s", Jsonb(CONFIG), made.indexes["new"], Jsonb(NEXT_CONFIG), sites[name].tool)
    made.do("UPDATE search_tool SET index_id = %s WHERE id = %s", made.indexes[place], made.third)
    for index_id in made.indexes.values():
        listing = "plan_owner = gen_random_uuid(), plan_until = now() + interval '1 min'"
        made.do(f"UPDATE search_index_task SET {listing} WHERE index_id = %s", index_id)
        ended = (
            "INSERT INTO search_index_task (id, tool_id, index_id, kind, status, created_at, finished_at)"
            " SELECT gen_random_uuid(), tool_id, index_id, 'create', 'ready', now() - interval '1 day',"
            " now() - interval '1 day' FROM search_index_task WHERE index_id = %s"
        )
        made.do(ended, index_id)
    return made


OPEN, ENDED, CANCELLED = ("pending", None, True), ("ready", False, False), ("cancelled", True, False)


@pytest.mark.parametrize("place", PLACES)
def test_tools_switch_to_an_index_that_is_ready_and_leave_theirs_to_others(resources: Resources, place: str) -> None:
    made = waiting(resources, place)
    before = {name: made.deleted(name) for name in PLACES}, made.tool("third")
    made.settle(TaskStatus.READY)
    for name in ("old", "older"):
        assert made.tool(name) == (made.indexes["new"], NEXT_CONFIG, None, None, None, 1)
    assert made.tool("third") == before[1]
    for name in PLACES:
        epoch = before[0][name][1]
        is_left = name not in {"new", place}
        # queries that began before the switch still read it
        assert made.deleted(name) == (("soon", epoch + 1) if is_left else (None, epoch)), name
        assert made.tasks(name) == [ENDED, CANCELLED if is_left else OPEN]


@pytest.mark.parametrize("status", [TaskStatus.ERROR, TaskStatus.CANCELLED])
@pytest.mark.parametrize("place", PLACES)
def test_tools_stay_where_they_are_if_the_new_index_does_not_become_ready(
    resources: Resources, place: str, status: TaskStatus
) -> None:
    made = waiting(resources, place)
    before = {name: made.deleted(name) for name in PLACES}, made.tool("third")
    made.settle(status, "the reason" if status is TaskStatus.ERROR else None)
    error = "the reason" if status is TaskStatus.ERROR else "The new index was cancelled before it was ready."
    for name in ("old", "older"):
        assert made.tool(name)[:5] == (made.indexes[name], CONFIG, None, None, error)
    assert made.tool("third") == before[1]
    for name in PLACES:
        epoch = before[0][name][1]
        is_left = name == "new" != place
        assert made.deleted(name) == (("now", epoch + 1) if is_left else (None, epoch)), name
        assert made.tasks(name) == [ENDED, CANCELLED if is_left else OPEN]


def test_an_index_is_deleted_once_and_only_if_tools_waited_for_it(resources: Resources) -> None:
    made = waiting(resources, "old")
    index_id = made.indexes["new"]
    for _ in range(2):
        made.settle(TaskStatus.ERROR)
    deleted = made.deleted("new")
    assert deleted[0] == "now"
    made.do("UPDATE search_index SET deleted_at = now() - interval '1 h' WHERE id = %s", index_id)
    with made.sites["new"].pool.connection() as connection:
        assert not index_switch.bury(connection, index_id)
    assert made.deleted("new") == deleted
    assert made.do("SELECT deleted_at < now() - interval '1 min' FROM search_index WHERE id = %s", index_id) == [
        (True,)
    ]


@pytest.mark.parametrize("act", ["cancel", "back", "change", "delete"])
@pytest.mark.parametrize("is_awaited", [False, True])
@pytest.mark.parametrize("place", ["old", "new"])
def test_an_index_that_a_tool_gives_up_goes_unless_another_uses_or_awaits_it(
    resources: Resources, act: str, place: str, *, is_awaited: bool
) -> None:
    made = waiting(resources, place)
    site = made.sites["old"]
    if not is_awaited:
        made.do("UPDATE search_tool SET next_index_id = NULL WHERE id = %s", made.sites["older"].tool)
    before = {name: made.deleted(name) for name in PLACES}, made.tool("older"), made.tool("third")
    match act:
        case "cancel":
            tool_actions.cancel(site.pool, site.tool)
        case "delete":
            tools.delete(site.pool, site.tool)
        case _:
            changed = {"max_file_bytes": 5} if act == "change" else {}
            tool_actions.change_config(site.pool, site.tool, ToolConfig(), site.wanted(**changed))
    if act != "delete":
        index_id, _, awaited, _, error, _ = made.tool("old")
        assert index_id == made.indexes["old"]
        assert awaited not in made.indexes.values()
        assert (awaited is None, error) == (act != "change", tool_actions.CANCELLED if act == "cancel" else None)
    assert (made.tool("older"), made.tool("third")) == before[1:]
    gone = {"new"} if place != "new" and not is_awaited else set()
    gone |= {"old"} if place != "old" and act == "delete" else set()
    for name in PLACES:
        is_ended = name in gone or (name, act) == ("old", "cancel")
        # workers are shut out of what was cancelled, too
        assert made.deleted(name) == ("now" if name in gone else None, before[0][name][1] + is_ended), name
        assert made.tasks(name) == [ENDED, CANCELLED if is_ended else OPEN], name


def test_who_locks_a_tool_locks_both_of_its_indexes(resources: Resources) -> None:
    made = waiting(resources, "old")
    pool = made.sites["old"].pool
    with pool.connection() as connection, pool.connection() as other:
        assert index_switch.lock_tool(connection, made.sites["old"].tool) is not None
        free = {name: index_switch.try_lock_rows(other, index_id) for name, index_id in made.indexes.items()}
    assert free == {"old": False, "older": True, "new": False}


def test_a_change_of_config_forgets_why_the_one_before_failed(resources: Resources) -> None:
    site = new_site(resources, 1)
    site.do("UPDATE search_tool SET update_error = 'earlier' WHERE id = %s", site.tool)
    tool_actions.change_config(site.pool, site.tool, ToolConfig(), site.wanted(max_file_bytes=5))
    assert site.do("SELECT update_error FROM search_tool WHERE id = %s", site.tool) == [(None,)]


@pytest.mark.parametrize(
    ("config", "next_config", "wanted", "is_found"),
    [
        ({}, None, {}, True),
        ({"chunk_size": 99}, None, {}, True),
        ({"chunk_size": 99}, None, {"chunk_size": 99}, True),
        ({"chunk_size": 99}, {"chunk_size": 99, "every": 60}, {"chunk_size": 99}, True),
        ({"chunk_size": 99}, {"chunk_size": 98}, {"chunk_size": 99}, False),
        ({"chunk_size": 98}, {"chunk_size": 99}, {"chunk_size": 99}, False),
        ({"types": ["md"]}, None, {}, False),
        ({}, {"exclude": ["*.md"]}, {}, False),
        ({"exclude": ["*.md"]}, {}, {}, False),
    ],
)
def test_a_tool_is_over_the_whole_folder_if_it_is_now_and_after_a_change(
    resources: Resources,
    config: dict[str, Any],
    next_config: dict[str, Any] | None,
    wanted: dict[str, Any],
    is_found: bool,
) -> None:
    site = new_site(resources)
    following = None if next_config is None else Jsonb(next_config)
    site.do("UPDATE search_tool SET config = %s, next_config = %s WHERE id = %s", Jsonb(config), following, site.tool)
    found = tools.over_whole(resources.pool, site.project, site.index.source, ToolConfig.model_validate(wanted))
    assert (found is not None and found.tool_id == site.tool) is is_found


def test_a_renewal_has_the_settings_of_the_index_that_the_tool_has_by_then(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = new_site(resources, 1)
    changed = new_site(resources, 1, project=site.project, settings={"exclude": ["*.txt"]}).index
    # a change of the config ends after the renewal read the index
    reads = iter([site.index, changed])
    site.do("UPDATE search_tool SET index_id = %s WHERE id = %s", changed.id, site.tool)
    monkeypatch.setattr(tools, "index_of_tool", lambda *_: next(reads))
    monkeypatch.setattr(worker.app, "post_plan", lambda *_: None)
    chunks.reindex(resources, site.tool, Reindex(full=True, renew_text=True))
    wanted = "SELECT n.settings FROM search_tool s JOIN search_index n ON n.id = s.next_index_id WHERE s.id = %s"
    ((settings,),) = site.do(wanted, site.tool)
    assert (settings["exclude"], settings["file_stems"]) == (["*.txt"], True)
