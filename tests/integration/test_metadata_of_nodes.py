"""Metadata of nodes and uploads: kept as sent, inherited from folders, replaced by own values, refused if not flat."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.service import PROJECT, Service, checked

NODES = f"/api/projects/{PROJECT}/nodes"
UPLOADS = f"/api/projects/{PROJECT}/uploads"


def own(running: Service, node: str) -> Any:
    return running.get(f"{NODES}/{node}")["metadata"]


def with_inherited(running: Service, node: str) -> Any:
    query = "SELECT all_metadata FROM content_node WHERE project_id = %s AND id = %s"
    ((values,),) = running.rows(query, PROJECT, node)
    return values


def patch(running: Service, node: str, **body: Any) -> dict[str, Any]:
    return checked(running.client.patch(f"{NODES}/{node}", json=body), 200)


def test_a_node_keeps_its_metadata_until_a_patch_replaces_it(running: Service) -> None:
    values = {
        "team": "red",
        "year": 2024,
        "share": 0.5,
        "open": True,
        "due": "2026-01-01T00:00:00Z",
        "tags": ["a", "b"],
    }
    node = running.node("a.md", "markdown", "text", metadata=values)
    assert own(running, node) == values
    assert patch(running, node, name="b.md")["metadata"] == values
    assert patch(running, node, metadata={"team": "blue"})["metadata"] == {"team": "blue"}
    assert patch(running, node, metadata=None)["metadata"] is None
    assert running.get(f"{NODES}/{node}")["version"] == 1


def test_what_a_folder_contains_has_its_values_unless_it_sets_its_own(running: Service) -> None:
    top = running.node("top", "folder", metadata={"team": "red", "year": 1})
    inner = running.node("inner", "folder", parent_id=top, metadata={"year": 2})
    note = running.node("note.md", "markdown", "text", parent_id=inner, metadata={"tags": ["x"]})
    assert with_inherited(running, note) == {"team": "red", "year": 2, "tags": ["x"]}
    patch(running, top, metadata={"team": "blue"})
    assert with_inherited(running, note) == {"team": "blue", "year": 2, "tags": ["x"]}
    other = running.node("other", "folder", metadata={"team": "green"})
    patch(running, inner, parent_id=other)
    assert with_inherited(running, note) == {"team": "green", "year": 2, "tags": ["x"]}
    patch(running, inner, parent_id=None, metadata=None)
    assert with_inherited(running, note) == {"tags": ["x"]}


def test_an_upload_gives_its_files_metadata_and_leaves_it_alone_without(running: Service) -> None:
    top = running.node("uploaded", "folder", metadata={"team": "red"})

    def upload(**form: str) -> str:
        response = running.client.post(
            UPLOADS, data={"parent_id": top, **form}, files=[("files", ("deep/a.md", b"text"))]
        )
        return str(checked(response, 200)["items"][0]["file_id"])

    node = upload(metadata=json.dumps({"year": 2020}))
    assert own(running, node) == {"year": 2020}
    assert with_inherited(running, node) == {"team": "red", "year": 2020}
    assert upload() == node
    assert own(running, node) == {"year": 2020}
    assert upload(metadata="{}") == node
    assert own(running, node) is None
    assert with_inherited(running, node) == {"team": "red"}


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


WRONG = {
    "a list": ["a"],
    "a string": "a",
    "an object in it": {"a": {"b": 1}},
    "a deep object": deep(500),
    "null": {"a": None},
    "a list of numbers": {"a": [1]},
    "a list of lists": {"a": [["b"]]},
    "a huge integer": {"a": 1 << 63},
    "a huge number": {"a": 1e300},
    "an empty key": {"": 1},
    "a key of blanks": {" ": 1},
    "a long key": {"k" * 65: 1},
    "a key of SQL": {"a'; DROP TABLE content_node; --": 1},
    "a key with an operator": {"a>=b": 1},
    "a NUL": {"a": "b\0"},
    "17 KB": {"a": "x" * 17_000},
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_flat_object_within_the_limits_is_refused(running: Service, case: str) -> None:
    body = {"name": "a.md", "type": "markdown", "content": "x", "metadata": WRONG[case]}
    assert checked(running.client.post(NODES, json=body), 422)["code"] == "invalid_request"
    node = running.node("a.md", "markdown", "text", metadata={"kept": 1})
    assert (
        checked(running.client.patch(f"{NODES}/{node}", json={"metadata": WRONG[case]}), 422)["code"]
        == "invalid_request"
    )
    form = {"metadata": json.dumps(WRONG[case])}
    answer = running.client.post(UPLOADS, data=form, files=[("files", (f"{uuid4()}.md", b"text"))])
    assert checked(answer, 422)["code"] == "invalid_request"
    assert own(running, node) == {"kept": 1}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(running: Service, number: str) -> None:
    body = f'{{"name": "a.md", "type": "markdown", "content": "x", "metadata": {{"a": {number}}}}}'
    answer = running.client.post(NODES, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in {400, 422}, answer.text
    form = {"metadata": f'{{"a": {number}}}'}
    upload = running.client.post(UPLOADS, data=form, files=[("files", ("a.md", b"text"))])
    assert checked(upload, 422)["code"] == "invalid_request"


def test_exactly_the_maximum_is_kept(running: Service) -> None:
    room = 16 * 1024 - len(json.dumps({"a": ""}))
    node = running.node("a.md", "markdown", "text", metadata={"a": "x" * room})
    assert len(own(running, node)["a"]) == room
    body = {"name": "a.md", "type": "markdown", "content": "x", "metadata": {"a": "x" * (room + 1)}}
    checked(running.client.post(NODES, json=body), 422)


def test_what_nodes_inherit_has_a_limit(running: Service) -> None:
    """32 KiB with the values of the folders above hold, and one byte more is refused and changes nothing."""
    values = {"a": "x" * 12_000, "b": "y" * 12_000}
    top = running.node("limited", "folder", metadata={"a": values["a"]})
    inner = running.node("inner", "folder", parent_id=top, metadata={"b": values["b"]})
    room = 32 * 1024 - len(json.dumps({**values, "c": ""}))
    most, too_much = {"c": "z" * room}, {"c": "z" * (room + 1)}

    def refused(answer: httpx.Response) -> None:
        assert checked(answer, 422)["code"] == "invalid_request"
        assert "With what its folders pass on" in answer.json()["detail"]

    def upload(name: str, metadata: dict[str, str]) -> httpx.Response:
        form = {"parent_id": inner, "metadata": json.dumps(metadata)}
        return running.client.post(UPLOADS, data=form, files=[("files", (f"new/{name}", b"text"))])

    def listed(folder: str) -> set[str]:
        return {item["name"] for item in running.get(NODES, parent_id=folder)["items"]}

    body = {"name": "a.md", "type": "markdown", "content": "x", "parent_id": inner}
    refused(running.client.post(NODES, json={**body, "metadata": too_much}))
    refused(upload("b.md", too_much))
    assert listed(inner) == set()
    node = checked(running.client.post(NODES, json={**body, "metadata": most}), 201)["id"]
    (saved,) = checked(upload("b.md", most), 200)["items"]
    assert with_inherited(running, node) == with_inherited(running, saved["file_id"]) == {**values, **most}

    refused(upload("b.md", too_much))
    for changed, metadata in ((node, too_much), (inner, {"b": values["b"] + "y"}), (top, {"a": values["a"] + "x"})):
        refused(running.client.patch(f"{NODES}/{changed}", json={"metadata": metadata}))
    moved = running.node("moved.md", "markdown", "x", metadata=too_much)
    refused(running.client.patch(f"{NODES}/{moved}", json={"parent_id": inner}))
    assert running.get(f"{NODES}/{moved}")["parent_id"] is None
    assert with_inherited(running, node) == with_inherited(running, saved["file_id"]) == {**values, **most}
    patch(running, moved, metadata=most)
    assert patch(running, moved, parent_id=inner)["parent_id"] == inner
    assert with_inherited(running, moved) == {**values, **most}


def test_a_patch_heals_what_an_older_process_left_below(running: Service) -> None:
    top = running.node("healed", "folder", metadata={"team": "red"})
    inner = running.node("inner", "folder", parent_id=top)
    node = running.node("a.md", "markdown", "x", parent_id=inner)
    # as a process inserts a node that knows no metadata
    running.rows("UPDATE content_node SET all_metadata = NULL WHERE project_id = %s AND id = %s", PROJECT, node)
    patch(running, top, metadata={"team": "red"})
    assert with_inherited(running, node) == {"team": "red"}


def test_random_changes_leave_what_a_model_says(running: Service) -> None:
    """Each node has the values of the folders above it, replaced by nearer ones, whatever was moved and changed."""
    random = Random(59)
    parents: dict[str, str | None] = {}
    values: dict[str, dict[str, int]] = {}

    def above(node: str) -> list[str]:
        parent = parents[node]
        return [] if parent is None else [*above(parent), parent]

    for _ in range(90):
        drawn = {key: random.randrange(4) for key in random.sample("abc", random.randrange(3))}
        folder = random.choice([None, *parents])
        step = random.choice(("new", "new", "move", "set"))
        if step == "new" or not parents:
            node = running.node("n", "folder", parent_id=folder, metadata=drawn or None)
            parents[node], values[node] = folder, drawn
            continue
        node = random.choice([*parents])
        if step == "set":
            patch(running, node, metadata=drawn)
            values[node] = drawn
        elif folder != node and (folder is None or node not in above(folder)):
            patch(running, node, parent_id=folder)
            parents[node] = folder
    for node in parents:
        expected: dict[str, int] = {}
        for each in (*above(node), node):
            expected |= values[each]
        assert (with_inherited(running, node) or {}) == expected
