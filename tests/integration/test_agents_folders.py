"""Agents that search several folders, and trees of summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.agents.fitting import counted
from tests.agents import Agent, frozen, over_http, over_stdio, until_nobody_waits
from tests.service import TOOLS, Service, eventually
from worker.settings import LOCAL_LLM

TREE = {"raptor": {"enabled": True, "cluster_method": "adjacent", "llm_model": LOCAL_LLM}}


@pytest.fixture(scope="module")
def folders(running: Service, root: Path) -> dict[str, str]:
    """The tools of three folders, one of which has a tree of summaries."""
    texts = {
        "harbour": {"cranes.md": "# Cranes\n\nThe harbour has nine cranes for containers.\n", "late.pdf": "%PDF-1.7"},
        "garden": {"beds/herbs.md": "# Herbs\n\nThe garden has cranes too: the birds that wade.\n"},
        "library": {
            f"{n:02}.md": f"# Shelf {n}\n\nShelf {n} holds books about cranes and {n} maps.\n" for n in range(12)
        },
    }
    made = {}
    for name, files in texts.items():
        for path, text in files.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)
        made[name] = running.local_tool(root / name, config=TREE if name == "library" else {}, project="default")
    for tool in made.values():
        running.wait(tool)
    return made


@pytest.fixture(scope="module")
def http(running: Service, folders: dict[str, str]) -> Iterator[Agent]:
    with over_http(running) as agent:
        yield agent


def folders_of(data: dict[str, Any]) -> list[tuple[str, int, int]]:
    return sorted((each["folder"], each["indexed_files"], each["total_files"]) for each in data["folders"])


def test_without_a_folder_all_are_searched_and_each_is_told(http: Agent) -> None:
    asked: tuple[dict[str, Any], ...] = ({}, {"folder": []})
    for arguments in asked:
        said = http.ask("search", query="cranes for containers", top_k=20, max_tokens=3000, **arguments)
        assert said.startswith("[harbour] cranes.md:1-3  ")
        assert "[garden] beds/herbs.md:1-3  " in said
        assert "Searched 3 folders; files indexed: " in said
        data = http.data("search", query="cranes for containers", top_k=20, max_tokens=3000, **arguments)
        assert folders_of(data) == [("garden", 1, 1), ("harbour", 1, 2), ("library", 12, 12)]
        assert (data["indexed_files"], data["total_files"]) == (14, 15)
        assert {hit["folder"] for hit in data["hits"]} == {"garden", "harbour", "library"}
        # what a hit says is enough to read on
        [first, *_] = data["hits"]
        assert "nine cranes" in http.ask("read_file", file=first["file"], folder=first["folder"])


def test_of_several_folders_only_those_that_are_named_are_searched(http: Agent, folders: dict[str, str]) -> None:
    data = http.data("search", query="cranes", folder=["garden", folders["harbour"], "garden"])
    assert folders_of(data) == [("garden", 1, 1), ("harbour", 1, 2)]
    assert {hit["folder"] for hit in data["hits"]} == {"garden", "harbour"}
    alone = http.data("search", query="cranes", folder=["garden"])
    assert alone["folder"].startswith("garden (")
    assert "folders" not in alone
    assert "No indexed folder is called 'nowhere'" in http.refused("search", query="x", folder=["garden", "nowhere"])


def test_parts_of_several_folders_are_searched_together(http: Agent, root: Path) -> None:
    data = http.data("search", query="cranes", folder=[f"{root}/garden/beds", f"{root}/library/03.md"], top_k=50)
    assert {(hit["folder"], hit["file"]) for hit in data["hits"]} == {
        *(("garden", "beds/herbs.md"), ("library", "03.md")),
    }


def test_files_are_chosen_in_all_folders(http: Agent) -> None:
    data = http.data("search", query="cranes", path="beds/*", types=["markdown"])
    assert {hit["file"] for hit in data["hits"]} == {"beds/herbs.md"}
    said = http.ask("search", query="cranes", types=["pdf"])
    assert said.startswith("Nothing found.")
    assert "Searched 3 folders; files indexed: " in said


def test_what_needs_one_folder_says_so(http: Agent) -> None:
    asked: tuple[dict[str, Any], ...] = ({"fresh": True}, {"tree": "collapsed"})
    for arguments in asked:
        assert "need one folder" in http.refused("search", query="x", **arguments)
    assert "at most 16 items" in http.refused("search", query="x", folder=["garden"] * 17)


def test_an_answer_over_several_folders_keeps_within_its_tokens(http: Agent) -> None:
    said = http.ask("search", query="cranes", top_k=50, max_tokens=300)
    assert counted(said) <= 300
    assert "Cut: " in said


def test_an_agent_in_a_folder_searches_that_one_unless_it_asks_for_all(
    running: Service, folders: dict[str, str], root: Path
) -> None:
    with over_stdio(running, cwd=root / "garden" / "beds") as agent:
        assert "Searched garden" in agent.ask("search", query="cranes")
        assert "Searched 3 folders" in agent.ask("search", query="cranes", folder=[])


def test_a_search_in_a_tree_gives_summaries_with_their_files(
    running: Service, http: Agent, folders: dict[str, str]
) -> None:
    library = folders["library"]
    ready = f"{TOOLS}/{library}/raptor/status"
    eventually(lambda: running.get(ready)["indexing_status"] == "indexed", 60, running.logs)
    asked = {"query": "what do the shelves hold", "folder": "library", "top_k": 5}
    assert "summaries" not in http.data("search", **asked)
    files = {f"{number:02}.md" for number in range(12)}
    for tree in ("collapsed", "tree_traversal"):
        data = http.data("search", tree=tree, **asked)
        assert data["summaries"], tree
        assert all(set(each["files"]) <= files and each["text"] for each in data["summaries"])
        assert {hit["file"] for hit in data["hits"]} <= files
    said = http.ask("search", tree="tree_traversal", **asked)
    [summary, *_] = data["summaries"]
    assert f"Summary of {', '.join(summary['files'])}:\n{summary['text']}" in said
    assert re.search(r"^\d\d\.md:\d+-\d+  ", said, re.MULTILINE), said
    assert said.endswith("12 of 12 files indexed.")
    assert "tree" in http.refused("search", query="x", folder="garden", tree="collapsed")


def test_a_call_ends_with_its_connection(running: Service, folders: dict[str, str]) -> None:
    """An agent of the protocol of 2025 that ends, or gives up a connection, leaves nothing running."""
    arguments = {"folder": "garden", "wait_seconds": 600}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "refresh", "arguments": arguments}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with frozen(running):
        with pytest.raises(httpx.ReadTimeout):
            running.client.post("/mcp", json=sent, headers=headers, timeout=2)
        until_nobody_waits(running)
    running.wait(folders["garden"])
