"""Which folder a word means, and what the client is told of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from api.agents.folders import FolderPart, nearest, target


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("/a/b", {"path": "/a/b"}),
        ("s3://b", {"bucket": "b", "prefix": ""}),
        ("s3://b/x/y/", {"bucket": "b", "prefix": "x/y/"}),
    ],
)
def test_a_bucket_is_named_with_its_prefix(place: str, arguments: dict[str, str]) -> None:
    assert target(place) == arguments


@pytest.mark.parametrize(
    ("path", "is_held"),
    [
        *((path, True) for path in ("notes", "notes/a.md", "notes/old/a.md")),
        *((path, False) for path in ("notes-old/a.md", "notes.md", "note", "old/notes/a.md", "Notes/a.md")),
    ],
)
def test_a_part_of_a_folder_is_a_file_or_all_below_a_folder(path: str, is_held: bool) -> None:
    tool: Any = None
    assert FolderPart(tool, "notes").holds(path) is is_held
    assert FolderPart(tool).holds(path)


def tool_over(path: str, task: str = "ready", created_at: int = 0) -> Any:
    return SimpleNamespace(node_id=None, place=path, task=task, created_at=created_at)


@pytest.mark.parametrize(
    ("path", "root", "below"),
    [
        ("/home/notes", "/home/notes", ""),
        ("/home/notes/old/a.md", "/home/notes", "old/a.md"),
        ("/home/notes-old/a.md", "/home", "notes-old/a.md"),
        ("/home", "/home", ""),
        ("/homes/notes", None, ""),
        ("/", None, ""),
    ],
)
def test_a_path_belongs_to_the_nearest_folder_above_it(path: str, root: str | None, below: str) -> None:
    tools = [tool_over("/home/notes"), tool_over("/home"), tool_over("/home/notes/new")]
    found = nearest(tools, path, str)
    assert (found and found.tool.place, found.below if found else "") == (root, below)


def test_of_equal_folders_a_ready_one_counts_and_then_the_newest() -> None:
    tools = [
        tool_over("/a", "error", 9),
        tool_over("/a", "ready", 1),
        tool_over("/a", "ready", 2),
        tool_over("/", created_at=8),
    ]
    found = nearest(tools, "/a/b", str)
    assert found is not None
    assert found.tool is tools[2]
