"""What is listed and found of many tools, compared with a model of them; and the schedule and error in a tool's row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from fastapi.testclient import TestClient
from psycopg.types.json import Jsonb

from api.main import create_app
from api.routes import projects
from schemas.content.source import LocalSource
from schemas.errors import TooManyTools
from schemas.tool import ToolConfig
from tests.integration.database import do
from tests.integration.steps.site import Site, listed_site
from worker.resources import Resources
from worker.state.index import tool_actions, tools
from worker.state.index.tools import NewIndex

pytestmark = pytest.mark.usefixtures("nobody_else")

PROJECTS = [f"p-{uuid4().hex}" for _ in range(2)]
FOLDERS = [LocalSource(kind="local", path=f"/srv/{name}") for name in ("a", "b")]
CONFIGS: list[dict[str, Any]] = [{}, {"watch": True}, {"watch": True, "include": ["*.md"]}, {"min_token_count": 5}]
#: More tools than there are.
MOST = 1000
#: A config that restricts what a tool indexes has one of these.
RESTRICTING = {"include", "exclude", "types", "min_token_count", "max_token_count"}


@dataclass(frozen=True)
class Made:
    """A tool as the model knows it."""

    id: UUID
    project: str
    folder: LocalSource
    config: dict[str, Any]
    next_config: dict[str, Any] | None
    created_at: datetime

    def has(self, wanted: dict[str, Any]) -> bool:
        """Whether all of the folder is indexed with these values, before and after a change under way."""
        after = self.config if self.next_config is None else self.next_config
        restricted = RESTRICTING & (self.config.keys() | after.keys())
        return not restricted and all(wanted.items() <= config.items() for config in (self.config, after))


def wanted_index(site: Site, project: str, folder: LocalSource) -> NewIndex:
    like = site.wanted()
    return NewIndex(project, folder, like.folder_node_id, like.settings, like.vector_store, like.keyword_index)


@pytest.fixture(scope="module")
def site(resources: Resources) -> Site:
    (resources.home.parent / "rows").mkdir()
    return Site(resources, resources.home.parent / "rows")


@pytest.fixture(scope="module")
def made(site: Site) -> list[Made]:
    """Tools of two projects over the same folders, the oldest first, whose rows are in another order."""
    kinds = list(product(PROJECTS, FOLDERS, CONFIGS, [None, *CONFIGS]))
    Random(1).shuffle(kinds)
    ages = [timedelta(minutes=number) for number in range(len(kinds))]
    Random(2).shuffle(ages)
    found = []
    for (project, folder, config, next_config), age in zip(kinds, ages, strict=True):
        new = wanted_index(site, project, folder)
        tool, _ = tools.create(site.pool, new, name=f"{age}", config=ToolConfig.model_validate(config))
        change = (
            "UPDATE search_tool SET created_at = created_at - %s::interval, next_config = %s WHERE id = %s"
            " RETURNING created_at"
        )
        ((created_at,),) = site.do(change, age, None if next_config is None else Jsonb(next_config), tool)
        found.append(Made(tool, project, folder, config, next_config, created_at))
    return sorted(found, key=lambda each: each.created_at)


def listed(site: Site, project: str | None, size: int) -> list[UUID]:
    """All pages of this size."""
    found: list[UUID] = []
    after = None
    while rows := tools.page(site.pool, project, after, size):
        assert len(rows) <= size
        found += [row.tool_id for row in rows]
        assert len(found) <= MOST
        after = rows[-1].created_at, rows[-1].tool_id
    return found


@pytest.mark.parametrize("size", [1, 7, MOST])
def test_a_project_lists_its_own_tools_the_oldest_first(site: Site, made: list[Made], size: int) -> None:
    for project in PROJECTS:
        assert listed(site, project, size) == [tool.id for tool in made if tool.project == project]
    known = {tool.id for tool in made}
    assert [id_ for id_ in listed(site, None, size) if id_ in known] == [tool.id for tool in made]


def test_a_page_of_tools_is_bounded_in_bytes(
    site: Site, made: list[Made], resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = PROJECTS[0]
    sizes = (
        "SELECT octet_length(config::text) + octet_length(source::text) + coalesce(octet_length(next_config::text), 0)"
        " FROM search_tool"
    )
    own = [tool.id for tool in made if tool.project == project]
    total = sum(size for id_ in own[:2] for ((size,),) in [site.do(f"{sizes} WHERE id = %s", id_)])
    monkeypatch.setattr(tools, "MAX_PAGE_BYTES", 10**9)
    assert tools.fitting(site.pool, project, None, 5) == 5
    assert tools.fitting(site.pool, project, None, MOST) == len(own)
    monkeypatch.setattr(tools, "MAX_PAGE_BYTES", 1)
    assert tools.fitting(site.pool, project, None, 5) == 1
    client = TestClient(create_app(resources.settings), base_url="http://127.0.0.1", client=("127.0.0.1", 1))
    found, cursor = list[str](), ""
    while cursor is not None:
        page = client.get("/api/tools/search", params={"project_id": project, "limit": 1000, "cursor": cursor}).json()
        assert len(page["items"]) == 1
        found.append(page["items"][0]["tool_id"])
        cursor = page["next_cursor"]
    assert found == [str(id_) for id_ in own]
    for most, fits in ((total, 2), (total - 1, 1)):
        monkeypatch.setattr(tools, "MAX_PAGE_BYTES", most)
        assert tools.fitting(site.pool, project, None, 5) == fits


def test_a_reindex_of_all_tools_ends_in_time_and_goes_on_where_it_ended(
    site: Site, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, like = f"p-{uuid4().hex}", site.wanted()
    made = []
    for number in range(4):
        folder = LocalSource(kind="local", path=f"/srv/all/{number // 2}")
        new = NewIndex(project, folder, like.folder_node_id, like.settings, like.vector_store, like.keyword_index)
        made.append(str(tools.create(site.pool, new, name=f"{number}", config=ToolConfig())[0]))
    path = f"/api/projects/{project}/reindex"
    client = TestClient(create_app(resources.settings), base_url="http://127.0.0.1", client=("127.0.0.1", 1))

    def pages(**query: Any) -> list[list[str]]:
        found, cursor = list[list[str]](), ""
        while cursor is not None:
            answer = client.post(path, params={"cursor": cursor, **query}).json()
            found.append([state["tool_id"] for state in answer["items"]])
            cursor = answer["next_cursor"]
        return found

    assert pages() == [made]
    assert pages(limit=4) == [made]
    assert pages(limit=3) == [made[:3], made[3:]]
    # a call starts one run at least
    monkeypatch.setattr(projects, "REINDEX_SECONDS", 0.0)
    assert pages() == [[tool] for tool in made]
    assert client.post("/api/projects/nobody/reindex").status_code == 404


def test_a_project_searches_its_own_tools_the_newest_first(site: Site, made: list[Made]) -> None:
    some = {tool.id for tool in made[::3]}
    for project in PROJECTS:
        own = [tool.id for tool in reversed(made) if tool.project == project]
        assert [tool.tool_id for tool in tools.searchable(site.pool, project)] == own
        asked = [tool.tool_id for tool in tools.searchable(site.pool, project, [*some])]
        assert asked == [id_ for id_ in own if id_ in some]


@pytest.mark.parametrize("wanted", [{}, {"watch": True}])
def test_a_tool_over_a_whole_folder_is_the_oldest_that_stays_one(
    site: Site, made: list[Made], wanted: dict[str, Any]
) -> None:
    for project, folder in product(PROJECTS, FOLDERS):
        left = [tool for tool in made if (tool.project, tool.folder) == (project, folder)]
        expected = [tool.id for tool in left if tool.has(wanted)]
        assert len(expected) > 1
        # each further one, once those before it are over another folder
        for id_ in expected:
            found = tools.over_whole(site.pool, project, folder, ToolConfig.model_validate(wanted))
            assert found is not None
            assert found.tool_id == id_
            site.do("UPDATE search_tool SET source = source || '{\"moved\": true}' WHERE id = %s", id_)
        assert tools.over_whole(site.pool, project, folder, ToolConfig.model_validate(wanted)) is None
        site.do("UPDATE search_tool SET source = source - 'moved' WHERE id = ANY (%s)", expected)


def test_who_wants_any_tool_over_a_folder_gets_the_newest_of_the_project(site: Site, made: list[Made]) -> None:
    for project, folder in product(PROJECTS, FOLDERS):
        newest = [tool.id for tool in made if (tool.project, tool.folder) == (project, folder)][-1]
        found = tools.create_over_source(
            site.pool, wanted_index(site, project, folder), name="", config=ToolConfig(chunk_size=96)
        )
        assert (found.tool_id, found.is_new) == (newest, False)


def test_a_tool_like_one_that_was_deleted_has_an_index_of_its_own(resources: Resources) -> None:
    site = listed_site(resources)
    wanted, gone = site.wanted(), site.index.id
    assert tools.find(site.pool, wanted) == gone
    tools.delete(site.pool, site.tool)
    assert tools.find(site.pool, wanted) is None
    site.tool, task = tools.create(site.pool, wanted, name="", config=ToolConfig())
    assert task is not None
    assert site.index.id != gone
    assert tools.find(site.pool, wanted) == site.index.id


# --- the rows of one tool


def test_a_tool_is_busy_while_a_task_over_its_index_is_open(resources: Resources) -> None:
    idle, other = listed_site(resources), listed_site(resources)
    for status, is_busy in (("pending", True), ("indexing", True), ("ready", False), ("error", False)):
        idle.do("UPDATE search_index_task SET status = %s WHERE id = %s", status, idle.task)
        assert tools.any_busy(idle.pool, [idle.tool]) == is_busy
    assert tools.any_busy(idle.pool, [idle.tool, other.tool])
    assert not tools.any_busy(idle.pool, [])


def test_a_tool_shows_the_newest_task_of_its_index_and_of_the_next_one(resources: Resources) -> None:
    now, next_ = listed_site(resources), listed_site(resources)
    now.do("UPDATE search_tool SET next_index_id = %s, next_config = '{}' WHERE id = %s", next_.index.id, now.tool)
    for site in (now, next_):
        site.do("UPDATE search_index_task SET status = 'error' WHERE id = %s", site.task)
        site.start()
    tool = tools.get(now.pool, now.tool)
    assert tool is not None
    assert tool.updating is not None
    assert (tool.task, tool.updating.status, tool.updating.task_id) == ("pending", "pending", next_.task)
    assert (tool.index.index_id, tool.updating.index.index_id) == (now.index.id, next_.index.id)


def hours(pool: Any, tool: UUID) -> int | None:
    """The hours until the next run by the schedule."""
    query = "SELECT round(extract(epoch FROM next_run_at - now()) / 3600)::int FROM search_tool WHERE id = %s"
    ((found,),) = do(pool, query, tool)
    return None if found is None else int(found)


def test_the_next_run_follows_the_schedule_that_was_last_set(resources: Resources) -> None:
    site = listed_site(resources)
    assert hours(site.pool, site.tool) is None
    tool, _ = tools.create(site.pool, site.wanted(), name="", config=ToolConfig(every=3 * 3600))
    assert hours(site.pool, tool) == 3
    for every in (2 * 3600, None, 3600):
        tool_actions.change_config(site.pool, tool, ToolConfig(every=every), site.wanted())
        assert hours(site.pool, tool) == (None if every is None else every // 3600)


def test_a_new_config_ends_the_error_of_an_earlier_one(resources: Resources) -> None:
    site = listed_site(resources)
    site.do("UPDATE search_tool SET update_error = 'No.' WHERE id = %s", site.tool)
    tool_actions.change_config(site.pool, site.tool, ToolConfig(watch=True), site.wanted())
    assert site.do("SELECT update_error, config FROM search_tool WHERE id = %s", site.tool) == [(None, {"watch": True})]


def test_how_files_are_filtered_holds_while_another_index_is_built(resources: Resources) -> None:
    site = listed_site(resources)
    before: dict[str, Any] = {"metadata": {"team": "string"}, "rules": [{"path": "*", "set": {"team": "red"}}]}
    tool_actions.change_config(site.pool, site.tool, ToolConfig(**before, watch=True), site.wanted())
    building: dict[str, Any] = {"metadata": {"team": "string", "new": "int"}}
    change = ToolConfig(**building, chunk_size=300, watch=True)
    tool_actions.change_config(site.pool, site.tool, change, site.wanted(max_file_bytes=5))
    tool = tools.get(site.pool, site.tool)
    assert tool is not None
    assert (tool.config, tool.updating is None) == (ToolConfig(**building, watch=True), False)
    after: dict[str, Any] = {"metadata": {"year": "int"}, "metadata_from": ["properties"]}
    wanted = ToolConfig(**after, chunk_size=200)
    tool_actions.change_config(site.pool, site.tool, wanted, site.wanted(max_file_bytes=5))
    tool = tools.get(site.pool, site.tool)
    assert tool is not None
    assert tool.config == ToolConfig(**after, watch=True)
    assert site.do("SELECT next_config FROM search_tool WHERE id = %s", site.tool) == [({**after, "chunk_size": 200},)]


@pytest.mark.parametrize(
    ("before", "after", "meanwhile"),
    [
        (["properties"], ["front_matter", "sidecars"], ["front_matter"]),
        (["properties", "sidecars"], ["front_matter"], ["front_matter", "sidecars"]),
        (["sidecars"], [], ["sidecars"]),
    ],
)
def test_sidecars_are_what_the_present_index_takes_them_for_until_the_switch(
    resources: Resources, before: list[Any], after: list[Any], meanwhile: list[str]
) -> None:
    site = listed_site(resources)
    tool_actions.change_config(site.pool, site.tool, ToolConfig(metadata_from=before), site.wanted())
    for size in (300, 200):
        change = ToolConfig(metadata_from=after, chunk_size=size)
        tool_actions.change_config(site.pool, site.tool, change, site.wanted(max_file_bytes=5))
        ((config, next_config),) = site.do("SELECT config, next_config FROM search_tool WHERE id = %s", site.tool)
        assert config == {"metadata_from": meanwhile}
        assert ToolConfig.model_validate(next_config) == change
    # what a cancel does
    tool_actions.cancel(site.pool, site.tool)
    assert site.do("SELECT config, next_config FROM search_tool WHERE id = %s", site.tool) == [
        ({"metadata_from": meanwhile}, None)
    ]


@pytest.mark.parametrize("next_config", [None, {"chunk_size": 128, "raptor": {"enabled": False}}])
def test_what_is_set_for_a_derived_index_outlives_a_change_under_way(
    resources: Resources, next_config: dict[str, Any] | None
) -> None:
    site = listed_site(resources)
    given = None if next_config is None else Jsonb(next_config)
    site.do("UPDATE search_tool SET config = '{\"watch\": true}', next_config = %s WHERE id = %s", given, site.tool)
    tool_actions.set_derived(site.pool, site.tool, "raptor", {"enabled": True})
    part = {"raptor": {"enabled": True}}
    expected = {"watch": True} | part, None if next_config is None else next_config | part
    assert site.do("SELECT config, next_config FROM search_tool WHERE id = %s", site.tool) == [expected]


# --- how many a project may have


@pytest.mark.parametrize("most", [1, 3])
def test_a_project_gets_as_many_tools_as_it_may_have_and_no_more(resources: Resources, most: int) -> None:
    site = listed_site(resources)
    for _ in range(most - 1):
        tools.create(site.pool, site.wanted(), name="", config=ToolConfig(), most=most)
    with pytest.raises(TooManyTools, match=f"{most} tools, and MAX_TOOLS .* delete one"):
        tools.create(site.pool, site.wanted(), name="", config=ToolConfig(), most=most)
    # what is there already is found, and counts for its own project only
    values: dict[str, Any] = {"name": "", "config": ToolConfig(), "most": most}
    assert not tools.create_over_source(site.pool, site.wanted(), **values).is_new
    assert not tools.create_over_whole(site.pool, site.wanted(), **values).is_new
    other = replace(site.wanted(), project_id=f"p-{uuid4()}")
    assert tools.create_over_source(site.pool, other, **values).is_new
    tools.delete(site.pool, site.tool)
    tools.create(site.pool, site.wanted(), **values)


@pytest.mark.parametrize("create", [tools.create, tools.create_over_source, tools.create_over_whole])
def test_callers_at_a_time_do_not_pass_the_limit_of_tools(resources: Resources, create: Any) -> None:
    site, most, callers = listed_site(resources), 4, 8
    paths = [LocalSource(kind="local", path=f"/nowhere/{number}") for number in range(callers)]
    wanted = [replace(site.wanted(), source=path) for path in paths]

    def made(new_index: tools.NewIndex) -> bool:
        try:
            create(site.pool, new_index, name="", config=ToolConfig(), most=most)
        except TooManyTools:
            return False
        return True

    with ThreadPoolExecutor(callers) as threads:
        assert sum(threads.map(made, wanted)) == most - 1
    assert len(tools.page(site.pool, site.project, None, 99)) == most
