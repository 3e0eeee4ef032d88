"""Nodes whose ids begin alike: what is at and below some of them is listed once, and nothing beside them."""

from __future__ import annotations

from random import Random

import pytest

from tests.contract.folders import Tree

#: Ids that sort before and after the paths below the first one.
FOLDERS = ("a", "a!", "a-", "a0", "ab")


@pytest.mark.parametrize("page_size", [2, 1000])
def test_what_is_below_nodes_is_listed_once_and_nothing_beside_them(tree: Tree, page_size: int) -> None:
    files: list[str] = []
    for folder in FOLDERS:
        tree.add(folder, "root", folder, "folder")
        tree.add(f"{folder}s", folder, f"{folder}s", "folder")
        files += [tree.add(f"{parent}.x", parent, f"{parent}.x", "text") for parent in (folder, f"{folder}s")]
    below = sorted(set(tree.paths) - {"top", "root", "root-2", "no"})
    random = Random(1)
    # others come between a folder and what is below it
    between = [["as", "a!", "a"], ["a-.x", "a", "as.x"]]
    for asked in [*between, *(random.sample(below, number) for number in (1, 2, 3) * 15)]:
        places = [tree.paths[id_] for id_ in asked]
        wanted = [id_ for id_ in files if any(f"{tree.paths[id_]}/".startswith(f"{place}/") for place in places)]
        source = tree.source(page_size)
        assert source.narrow([id_.encode() for id_ in asked]) is not None
        found, cursor = [], None
        for _ in files:
            page = source.list(cursor)
            found += [entry.key.decode() for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == sorted(wanted, key=tree.paths.__getitem__), asked


@pytest.mark.parametrize("asked", ["root-2", "no", "roots", "beside", "top"])
def test_nodes_beside_the_root_and_above_it_are_not_listed(tree: Tree, asked: str) -> None:
    tree.add("inside", "root", "inside", "text")
    # its path sorts after those below the root
    tree.add("roots", "top", "roots", "folder")
    tree.add("beside", "roots", "beside", "text")
    source = tree.source()
    assert source.narrow([asked.encode()]) is not None
    assert source.list(None).entries == []
