"""The nodes of a folder are listed by name, in pages."""

from __future__ import annotations

from uuid import uuid4

import pytest

from foldex_client import Foldex
from tests.service import PROJECT, Service

NODES = f"/api/projects/{PROJECT}/nodes"


@pytest.mark.parametrize("limit", [1, 2, 6, 7, 1000])
def test_pages_hold_each_node_of_a_folder_once_by_name(running: Service, limit: int) -> None:
    folder = running.node("folder", "folder")
    long = "n" * 300
    names = [f"{long}b", "b.md", "B.md", f"{long}a", "é.md", "b.md"]
    ids = [running.node(name, "text", "text", parent_id=folder) for name in names]
    inner = running.node("a", "folder", parent_id=folder)
    running.node("of another folder", "text", "text", parent_id=inner)
    found = running.pages(NODES, limit=limit, parent_id=folder)
    assert [(node["name"], node["id"]) for node in found] == sorted(zip([*names, "a"], [*ids, inner], strict=True))


def test_the_top_level_is_listed_without_a_parent(running: Service) -> None:
    name = uuid4().hex
    top = running.node(name, "folder")
    running.node("below", "text", "text", parent_id=top)
    found = [node for node in running.pages(NODES, limit=3) if node["name"] in {name, "below"}]
    assert [node["id"] for node in found] == [top]
    assert running.get("/api/projects/nobody/nodes") == {"items": [], "next_cursor": None}


def test_a_listed_node_has_all_fields_but_what_may_be_large(running: Service) -> None:
    folder = running.node("folder", "folder")
    node = running.node("a.json", "json", {"a": 1}, parent_id=folder)
    whole = running.get(f"{NODES}/{node}")
    assert [whole.pop(name) for name in ("content", "metadata", "acl", "withheld")] == [{"a": 1}, None, None, False]
    assert running.pages(NODES, limit=10, parent_id=folder) == [whole]


def test_what_cannot_be_listed_is_refused(running: Service) -> None:
    text = running.node("a.md", "markdown", "# A")
    for params, status, said in (
        ({"parent_id": "none"}, 404, "no node 'none'"),
        ({"parent_id": text}, 422, "not a folder"),
        ({"cursor": "x"}, 422, "next_cursor"),
        ({"limit": 0}, 422, "limit"),
    ):
        answer = running.client.get(NODES, params=params)
        assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text


def test_the_client_fetches_all_pages(running: Service) -> None:
    folder = running.node("folder", "folder")
    ids = [running.node(f"{number}.md", "text", "text", parent_id=folder) for number in range(5)]
    with Foldex(str(running.client.base_url), trust_env=False) as client:
        assert [node.id for node in client.nodes.list(PROJECT, folder, page_size=2)] == ids
