"""Nodes that move at once, or while they are indexed and searched, stay one tree and are found where they went."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.service import PROJECT, TOOLS, Service, checked

NODES = f"/api/projects/{PROJECT}/nodes"
NOTES = 12


@pytest.fixture
def top(running: Service) -> str:
    return running.node(f"moves-{uuid4().hex[:8]}", "folder")


def move(running: Service, node: str, parent: str | None) -> httpx.Response:
    return running.client.patch(f"{NODES}/{node}", json={"parent_id": parent})


def tree(running: Service, top: str) -> dict[str, tuple[str | None, str]]:
    """The parent and the path of ids of each node whose path has this folder."""
    query = "SELECT id, parent_id, id_path FROM content_node WHERE project_id = %s AND id_path ~ %s"
    return {id_: (parent, path) for id_, parent, path in running.rows(query, PROJECT, f"^/{top}(/|$)")}


def check_tree(running: Service, top: str, ids: set[str]) -> None:
    """Each node is there, and its path is that of its parent and its own id."""
    found = tree(running, top)
    assert {*found} == {top, *ids}
    for id_ in ids:
        parent, path = found[id_]
        assert parent is not None
        assert path == f"{found[parent][1]}/{id_}"


def test_no_folder_comes_to_lie_in_itself(running: Service, top: str) -> None:
    outer = running.node("outer", "folder", parent_id=top)
    middle = running.node("middle", "folder", parent_id=outer)
    inner = running.node("inner", "folder", parent_id=middle)
    note = running.node("note.md", "markdown", "text", parent_id=inner)
    other = {"name": "other", "type": "folder"}
    foreign = running.post("/api/projects/project-2/nodes", other, 201)["id"]
    before = tree(running, top)
    for node, parent, status in (
        (outer, outer, 422),
        (outer, middle, 422),
        (outer, inner, 422),
        (middle, inner, 422),
        (top, inner, 422),
        (outer, note, 422),
        (outer, foreign, 404),
        (outer, "missing", 404),
        (foreign, top, 404),
    ):
        refused = move(running, node, parent)
        assert (refused.status_code, refused.json()["code"]) == (
            status,
            {404: "not_found", 422: "invalid_request"}[status],
        )
    assert tree(running, top) == before
    checked(move(running, inner, top), 200)
    checked(move(running, outer, inner), 200)
    check_tree(running, top, {outer, middle, inner, note})


def test_of_two_folders_that_move_into_each_other_one_stays(running: Service, top: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        for _ in range(8):
            one, two = (running.node(name, "folder", parent_id=top) for name in ("one", "two"))
            both = [threads.submit(move, running, *pair) for pair in ((one, two), (two, one))]
            assert sorted(answer.result().status_code for answer in both) == [200, 422]
            check_tree(running, top, {one, two})
            checked(running.client.delete(f"{NODES}/{one}"), 202)
            if two in tree(running, top):
                checked(running.client.delete(f"{NODES}/{two}"), 202)


def test_random_moves_at_once_leave_one_tree(running: Service, top: str) -> None:
    folders = [running.node(f"f{number}", "folder", parent_id=top) for number in range(8)]

    def moves(seed: int) -> set[int]:
        rng = Random(seed)
        return {move(running, rng.choice(folders), rng.choice([*folders, top])).status_code for _ in range(20)}

    with ThreadPoolExecutor(4) as threads:
        answers = set().union(*threads.map(moves, range(4)))
    assert answers == {200, 422}
    check_tree(running, top, {*folders})


@contextmanager
def at_once(*acts: Any) -> Iterator[None]:
    """Repeat each act in a thread of its own until the block ends. What one raises is raised."""
    stop = Event()

    def repeat(act: Any) -> None:
        while not stop.is_set():
            act()

    with ThreadPoolExecutor(len(acts)) as threads:
        repeated = [threads.submit(repeat, act) for act in acts]
        try:
            yield
        finally:
            stop.set()
        for each in repeated:
            each.result()


def test_notes_that_move_during_runs_and_greps_are_found_where_they_went(running: Service, top: str) -> None:
    places = [running.node(name, "folder", parent_id=top) for name in ("a", "b", "unindexed")]
    folder = running.node("sub", "folder", parent_id=places[0])
    notes = {
        f"n{number}.md": running.node(f"n{number}.md", "markdown", f"walnut of n{number}.md", parent_id=folder)
        for number in range(NOTES)
    }
    tools = [running.tool(node_id=place) for place in places[:2]]
    for tool in tools:
        running.wait(tool)

    def grep() -> None:
        for tool in tools:
            answer = running.post(f"{TOOLS}/{tool}/grep", {"pattern": "walnut"}, 200)
            for hit in answer["hits"]:
                assert hit["preview"] == f"walnut of {hit['file_path'].rpartition('/')[2]}"

    def run() -> None:
        for tool in tools:
            running.post(f"{TOOLS}/{tool}/reindex", {"allow_removals": True})
            running.wait(tool)

    rng = Random(7)
    with at_once(grep, run):
        for _ in range(60):
            node = rng.choice([folder, *notes.values()])
            checked(move(running, node, rng.choice(places if node == folder else [*places, folder])), 200)
    run()
    paths = {id_: path for id_, (_, path) in tree(running, top).items()}
    for place, tool in zip(places, tools, strict=False):
        there = {name for name, id_ in notes.items() if f"/{place}/" in paths[id_]}
        grepped = running.post(f"{TOOLS}/{tool}/grep", {"pattern": "walnut"}, 200)["hits"]
        queried = running.query(tool, "walnut", mode="keyword", top_k=100)
        for hits in (grepped, queried):
            assert {hit["file_path"].rpartition("/")[2] for hit in hits} == there
            assert all(f"/{place}/" in hit["file_id_path"] for hit in hits)
