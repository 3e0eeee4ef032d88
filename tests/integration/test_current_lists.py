"""Answers are made again if access lists change while they are made."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

from api.http.current_lists import MAX_TIMES, answers_by_current_lists, by_current_lists, by_lists
from api.http.sight import ListsVersion, SeenIndex, seen
from api.search.text.visibility import are_counted
from schemas.content.acl import EVERYTHING, Sight
from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.errors import NotFound, ServerBusy
from schemas.tool import IndexSettings, ToolConfig
from worker.state.access import acl
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, StoredContent
from worker.state.index import tool_actions, tools
from worker.state.pool import Pool

NOBODY = Sight(frozenset())
SETTINGS = IndexSettings(embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1000)


class Lists:
    """The lists of a project, which change while the first `changes` answers are made."""

    def __init__(self, pool: Pool, changes: int, *, revoke: bool = True) -> None:
        self.pool, self.project, self.left, self.revoke = pool, f"p-{uuid4()}", changes, revoke
        self.made: list[acl.Version | None] = []

    def change(self) -> None:
        with self.pool.connection() as connection:
            acl.class_of(connection, self.project, ["user:ann"])
            acl.note_change(connection, self.project, revokes=self.revoke)

    def make(self, lists: ListsVersion | None) -> str:
        assert lists is not None
        self.made.append(lists.number)
        if self.left:
            self.left -= 1
            self.change()
        return f"by {lists.number}"


@pytest.mark.parametrize("changes", [0, 1, MAX_TIMES - 1])
def test_an_answer_is_that_of_the_lists_at_its_end(pool: Pool, changes: int) -> None:
    lists = Lists(pool, changes)
    answer = by_current_lists(pool, lists.project, NOBODY, lists.make)
    assert answer == f"by {acl.version(pool, lists.project)}"
    assert len(lists.made) == changes + 1


def test_lists_that_always_change_end_in_an_error_that_can_be_retried(pool: Pool) -> None:
    lists = Lists(pool, MAX_TIMES)
    with pytest.raises(ServerBusy) as caught:
        by_current_lists(pool, lists.project, NOBODY, lists.make)
    assert caught.value.retryable
    assert len(lists.made) == MAX_TIMES


def test_an_error_by_old_lists_is_not_told(pool: Pool) -> None:
    lists = Lists(pool, 1)

    def make(version: ListsVersion | None) -> str:
        if version == ListsVersion(None):
            lists.make(version)
            raise NotFound("of what is hidden by now")
        return lists.make(version)

    assert by_current_lists(pool, lists.project, NOBODY, make) == f"by {acl.Version(1, 1)}"
    with pytest.raises(NotFound):
        by_current_lists(pool, f"p-{uuid4()}", NOBODY, make)


def test_who_sees_all_asks_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl, "version", lambda *_: pytest.fail("asked"))
    assert by_current_lists(None, "p", EVERYTHING, lambda lists: lists) is None  # type: ignore[arg-type] # not used


def test_an_answer_of_what_everybody_may_read_holds(pool: Pool) -> None:
    lists = Lists(pool, 1)

    def make(version: ListsVersion | None) -> str:
        answer = lists.make(version)
        assert version is not None
        version.is_open = True
        return answer

    assert by_current_lists(pool, lists.project, NOBODY, make) == "by None"


@pytest.mark.parametrize("sees_all", [False, True])
def test_nodes_that_are_new_spoil_no_answer_of_selected_files(pool: Pool, *, sees_all: bool) -> None:
    lists = Lists(pool, MAX_TIMES + 1, revoke=False)
    lists.change()

    def make(version: ListsVersion | None) -> str:
        assert version is not None
        version.sees_all = sees_all and not version.is_selective
        return lists.make(version)

    assert by_current_lists(pool, lists.project, NOBODY, make).startswith("by ")
    assert len(lists.made) == 1 + sees_all


def test_an_endpoint_that_is_awaited_checks_itself() -> None:
    async def waits() -> None: ...

    assert answers_by_current_lists(waits) is waits


def seen_index(pool: Pool, project: str, **config: object) -> SeenIndex:
    """An index of a new folder `f` of a project, as nobody sees it."""
    nodes.insert(pool, project, NewNode("f", None, "f", "folder"), StoredContent())
    source = NodesSource(kind="nodes", node_id="f")
    wanted = tools.NewIndex(project, source, "h.1", SETTINGS, "lancedb", "store")
    tool_id, _ = tools.create(pool, wanted, name="", config=ToolConfig.model_validate(config))
    index = tools.index_of_tool(pool, tool_id)
    assert index is not None
    return seen(index, NOBODY)


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, calls: Counter[str]) -> None:
    function = getattr(module, name)

    def counted(*given: Any) -> Any:
        calls[name] += 1
        return function(*given)

    monkeypatch.setattr(module, name, counted)


def test_the_rules_of_a_tool_are_read_again_when_they_change(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    project, reads = f"p-{uuid4()}", Counter[str]()
    index = seen_index(pool, project, rules=[{"path": "a/**", "acl": ["user:ann"]}])
    assert index.tool_id is not None
    count_calls(monkeypatch, tools, "index_of_tool", reads)

    def paths() -> list[str]:
        # the index at hand is always the first one
        present = ListsVersion(acl.version(pool, project))
        return [rule.path for rule in by_lists(pool, index, present).metadata.rules]

    assert [paths() for _ in range(3)] == [["a/**"]] * 3
    assert reads.total() == 1
    config = ToolConfig.model_validate({"rules": [{"path": "b/**", "acl": ["user:ann"]}]})
    tool_actions.change_config(pool, index.tool_id, config, None)
    assert paths() == ["b/**"]
    tool_actions.change_config(pool, index.tool_id, ToolConfig(), None)
    assert paths() == []
    assert reads.total() == 3


def test_counts_are_shown_until_a_list_may_hide_a_file(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    project, reads = f"p-{uuid4()}", Counter[str]()
    index = seen_index(pool, project)
    count_calls(monkeypatch, acl, "may_hide", reads)
    # elsewhere in the project
    nodes.insert(pool, project, NewNode("g", None, "g", "text", acl=["user:ann"]), StoredContent())
    assert [are_counted(pool, index) for _ in range(3)] == [True] * 3
    assert reads.total() == 1
    nodes.insert(pool, project, NewNode("a", "f", "a", "text", acl=["user:ann"]), StoredContent())
    assert [are_counted(pool, index) for _ in range(3)] == [False] * 3
    assert reads.total() == 2
    nodes.delete(pool, project, "a")
    assert are_counted(pool, index)
