"""Nodes: what a move and a delete reach, and what a path of names means; directly on the rows."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from schemas.errors import Invalid
from tests.integration.database import do
from worker.resources import Resources
from worker.state.content import nodes, orphans, uploads
from worker.state.content.nodes import MAX_ID_PATH, NewNode, NodeMove, StoredContent
from worker.state.content.uploads import ReceivedFile
from worker.state.pool import Pool

#: The parent of each node.
PARENTS = {"to": None, "a": None, "b": "a", "ab": None, "c": "ab"}
INTO_TO = NodeMove(None, "to", to_parent=True)


def insert(
    pool: Pool, project: str, id_: str, parent: str | None, name: str | None = None, type_: str = "folder"
) -> None:
    nodes.insert(pool, project, NewNode(id_, parent, name or id_, type_), StoredContent())


@pytest.fixture
def project(resources: Resources) -> str:
    made = f"p-{uuid4().hex}"
    for id_, parent in PARENTS.items():
        insert(resources.pool, made, id_, parent)
    return made


def test_a_folder_moves_with_all_below_it_and_nothing_else(resources: Resources, project: str) -> None:
    nodes.change(resources.pool, project, "a", INTO_TO, None)
    found = nodes.id_paths(resources.pool, project, [*PARENTS])
    assert found == {"to": "/to", "a": "/to/a", "b": "/to/a/b", "ab": "/ab", "c": "/ab/c"}


@pytest.mark.parametrize(("parent", "fits"), [("a", False), ("b", False), ("ab", True), ("c", True)])
def test_a_folder_moves_anywhere_but_into_itself(resources: Resources, project: str, parent: str, fits: bool) -> None:
    place = NodeMove(None, parent, to_parent=True)
    with nullcontext() if fits else pytest.raises(Invalid, match="into itself"):
        nodes.change(resources.pool, project, "a", place, None)
    assert (nodes.id_paths(resources.pool, project, ["a"])["a"] == "/a") is not fits


def test_a_folder_is_deleted_with_all_below_it_and_nothing_else(resources: Resources, project: str) -> None:
    nodes.delete(resources.pool, project, "a")
    assert nodes.id_paths(resources.pool, project, [*PARENTS]).keys() == {"to", "ab", "c"}


@pytest.mark.parametrize(("excess", "fits"), [(0, True), (1, False)])
def test_what_is_below_a_folder_may_be_too_deep_for_its_move(
    resources: Resources, project: str, excess: int, fits: bool
) -> None:
    deepest = "x" * (MAX_ID_PATH - len("/to/a/") + excess)
    insert(resources.pool, project, deepest, "a")
    if fits:
        nodes.change(resources.pool, project, "a", INTO_TO, None)
    else:
        with pytest.raises(Invalid, match="nested too deep"):
            nodes.change(resources.pool, project, "a", INTO_TO, None)
    assert nodes.id_paths(resources.pool, project, [deepest]) == {deepest: f"{'/to' if fits else ''}/a/{deepest}"}


def test_a_slash_within_a_name_ends_no_name_of_a_path(resources: Resources, project: str) -> None:
    insert(resources.pool, project, "top", None, "one/two")
    insert(resources.pool, project, "below", "top", "three/four")
    for path, found in (("one|two", ["/top"]), ("one|two/three|four", ["/top/below"]), ("one/two/three/four", [])):
        assert [node.id_path for node in nodes.find(resources.pool, project, path, "|")] == found


def test_an_object_that_a_node_refers_to_is_never_given_up(resources: Resources, project: str) -> None:
    used, unused = (f"{project}/{name}" for name in ("used", "unused"))
    orphans.announce(resources.pool, [used], timedelta(hours=1))
    nodes.insert(resources.pool, project, NewNode("of", None, "of", "markdown"), StoredContent(object_key=used, size=1))
    with resources.pool.connection() as connection:
        orphans.leave(connection, [used, unused])
    assert [key for key in orphans.give_up(resources.pool, 1000) if key.startswith(project)] == [unused]
    query = "SELECT key, given_up FROM content_stray WHERE key IN (%s, %s)"
    assert do(resources.pool, query, used, unused) == [(unused, True)]


@pytest.mark.parametrize("first", ["folder", "file"])
def test_an_upload_goes_to_the_oldest_of_its_kind_with_that_name(
    resources: Resources, project: str, first: str
) -> None:
    types = {"folder": "folder", "file": "markdown"}
    for kind in (first, *(types.keys() - {first})):
        for place in ("older", "newer"):
            insert(resources.pool, project, f"{kind}-{place}", None, "docs", types[kind])
    keys = [f"{project}/{number}" for number in range(2)]
    orphans.announce(resources.pool, keys, timedelta(hours=1))
    paths = (("docs",), ("docs", "in.md"))
    received = [ReceivedFile(path, "markdown", key, 1) for path, key in zip(paths, keys, strict=True)]
    (replaced, added), _ = uploads.save(resources.pool, project, None, received)
    assert replaced.node_id == "file-older"
    assert added.node_id is not None
    found = nodes.id_paths(resources.pool, project, [added.node_id])
    assert found == {added.node_id: f"/folder-older/{added.node_id}"}


@pytest.mark.parametrize(("received", "expected"), [("file", "markdown"), ("json", "json")])
def test_a_new_version_keeps_its_type_if_its_name_tells_none(
    resources: Resources, project: str, received: str, expected: str
) -> None:
    insert(resources.pool, project, "notes", None, type_="markdown")
    key = f"{project}/notes"
    orphans.announce(resources.pool, [key], timedelta(hours=1))
    uploads.save(resources.pool, project, None, [ReceivedFile(("notes",), received, key, 1)])
    node = nodes.get(resources.pool, project, "notes")
    assert (node.type, node.version) == (expected, 2)


def test_a_file_takes_the_place_of_json(resources: Resources, project: str) -> None:
    insert(resources.pool, project, "notes", None, type_="json")
    nodes.change(resources.pool, project, "notes", None, StoredContent('{"a": 1}', size=8))
    key = f"{project}/notes"
    orphans.announce(resources.pool, [key], timedelta(hours=1))
    uploads.save(resources.pool, project, None, [ReceivedFile(("notes",), "json", key, 1)])
    node = nodes.with_json(resources.pool, project, "notes")
    assert (node.json_text, node.object_key, node.version) == (None, key, 3)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_nodes_of_one_name_are_paged_by_their_ids(resources: Resources, project: str, size: int) -> None:
    for number, name in enumerate(("same", "Same", "same", "same", "x" * 300, "x" * 300)):
        insert(resources.pool, project, f"n{number}", "to", name)
    found: list[Any] = []
    after = None
    while page := nodes.page(resources.pool, project, "to", after=after, limit=size):
        found += [node.id for node in page]
        assert len(found) <= 6
        after = page[-1].name, page[-1].id
    assert found == ["n1", "n0", "n2", "n3", "n4", "n5"]


def test_a_new_place_is_a_change_of_the_node(resources: Resources, project: str) -> None:
    before = nodes.get(resources.pool, project, "a").updated_at
    nodes.change(resources.pool, project, "a", INTO_TO, None)
    assert nodes.get(resources.pool, project, "a").updated_at > before
