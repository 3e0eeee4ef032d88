"""Summary trees over HTTP, built by real workers."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.integration.command_documents import TREE_DOCUMENTS, items_of
from tests.integration.commanding import foldex
from tests.service import TOOLS, Service, another_api, checked, eventually
from worker.app import make_app
from worker.settings import LOCAL_LLM

TOPICS = ["apples and pears of the orchard", "engines with pistons and gears", "judges, lawyers and the court"]
TREE = {"enabled": True, "cluster_method": "adjacent"}


def folder(root: Path, name: str, files: int = 24) -> Path:
    path = root / name
    path.mkdir()
    for number in range(files):
        topic = TOPICS[number * len(TOPICS) // files]
        (path / f"{number:02}.md").write_text(f"# {name} {number}\n\nReport {number} of {name} tells of {topic}.\n")
    return path


def tree_status(service: Service, tool: str) -> dict[str, Any]:
    return service.get(f"{TOOLS}/{tool}/raptor/status")


def built(service: Service, tool: str, seconds: float = 60) -> dict[str, Any]:
    """Wait until the tree has all texts of the folder."""
    status: dict[str, Any] = {}

    def is_complete() -> bool:
        status.update(tree_status(service, tool))
        return status["indexing_status"] in {"indexed", "error", "cancelled"} and not status["stale"]

    eventually(is_complete, seconds, lambda: f"{status}\n{service.logs()}")
    assert status["indexing_status"] == "indexed", f"{status}\n{service.logs()}"
    return status


def answer(service: Service, tool: str, query: str, **body: Any) -> dict[str, Any]:
    return service.post(f"{TOOLS}/{tool}/query", {"query": query, **body}, 200)


@pytest.fixture(scope="module")
def orchard(running: Service, root: Path) -> str:
    """A tool with a complete tree."""
    tool = running.local_tool(folder(root, "orchard"), config={"raptor": TREE})
    running.wait(tool)
    built(running, tool)
    return tool


def test_a_tree_is_built_behind_the_index(running: Service, orchard: str) -> None:
    status = tree_status(running, orchard)
    assert status["has_index"]
    assert status["leaf_nodes"] == 24
    assert status["max_level"] >= 2
    assert status["summary_nodes"] == sum(row["count"] for row in status["nodes_by_level"] if row["level"])
    assert status["total_nodes"] == status["leaf_nodes"] + status["summary_nodes"]
    assert status["last_build_time"].endswith("Z")
    assert (status["progress"], status["stale"], status["method"]) == (1, 0, "adjacent")


def test_a_person_can_walk_the_tree(running: Service, orchard: str) -> None:
    nodes = f"{TOOLS}/{orchard}/raptor/nodes"
    top = max(node["level"] for node in running.get(nodes)["items"])
    (root_node,) = running.get(nodes, level=top)["items"]
    assert root_node["parent_ids"] == []
    assert len(root_node["file_paths"]) == 24
    below = running.get(nodes, parent=root_node["node_id"])["items"]
    assert {node["node_id"] for node in below} == set(root_node["children_ids"])
    assert all(node["parent_ids"] == [root_node["node_id"]] for node in below)
    level_1 = running.get(nodes, level=1)["items"]
    leaves = [leaf for node in level_1 for leaf in running.get(nodes, parent=node["node_id"])["items"]]
    assert len({leaf["node_id"] for leaf in leaves}) == 24
    assert all(len(leaf["file_paths"]) == 1 for leaf in leaves)
    for limit in (8, 20):
        assert len({node["node_id"] for node in running.pages(nodes, level=0, limit=limit)}) == 24
    summaries = running.get(nodes)["items"]
    assert [node["level"] for node in summaries] == sorted((node["level"] for node in summaries), reverse=True)
    assert running.pages(nodes, limit=1) == summaries


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_a_search_finds_leaves_through_summaries(running: Service, orchard: str, tree: str) -> None:
    found = answer(running, orchard, "judges in the court", tree=tree, top_k=20)
    hits = found["results"]
    assert len({hit["chunk_id"] for hit in hits}) == len(hits) >= 8
    assert all("judges" in hit["chunk_text"] for hit in hits[:4])
    through = [hit for hit in hits if hit["raptor_expanded_from"]]
    assert through
    assert all(0 < len(hit["raptor_summary_preview"]) <= 100 for hit in through)
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert found["coverage"] == {"indexed_files": 24, "total_files": 24, "stale_files": None, "vector_share": 1.0}
    assert found["summaries"] == []


def test_a_narrow_beam_follows_one_summary_per_level(running: Service, orchard: str) -> None:
    asked: dict[str, Any] = {"query": "judges in the court", "tree": "tree_traversal", "top_k": 50}
    narrow = answer(running, orchard, **asked, beam=1)["results"]
    assert len({hit["raptor_expanded_from"] for hit in narrow}) == 1
    assert all("judges" in hit["chunk_text"] for hit in narrow)
    assert len(narrow) < len(answer(running, orchard, **asked, beam=100)["results"]) == 24
    apart = answer(running, orchard, **asked, beam=1, expand_to_leaves=False)
    top = tree_status(running, orchard)["max_level"]
    assert [each["level"] for each in apart["summaries"]] == list(range(top, 0, -1))
    assert (apart["total_results"], apart["coverage"]["total_files"]) == (len(apart["results"]), 24)


def test_a_query_is_embedded_by_the_model_of_the_build(running: Service, orchard: str) -> None:
    asked: dict[str, Any] = {"query": "judges in the court", "tree": "collapsed"}
    with another_api(running, DEFAULT_EMBEDDING_MODEL="openai/of-others") as other:
        assert answer(other, orchard, **asked)["results"] == answer(running, orchard, **asked)["results"]


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_summaries_can_be_listed_apart(running: Service, orchard: str, tree: str) -> None:
    found = answer(running, orchard, "judges in the court", tree=tree, top_k=20, expand_to_leaves=False)
    assert found["summaries"]
    assert all(hit["raptor_expanded_from"] is None for hit in found["results"])
    nodes = {node["node_id"]: node for node in running.get(f"{TOOLS}/{orchard}/raptor/nodes")["items"]}
    for summary in found["summaries"]:
        node = nodes[summary["node_id"]]
        assert (summary["level"], summary["text"]) == (node["level"], node["text"])
        assert summary["file_paths"] == node["file_paths"]


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_filters_hold_for_leaves(running: Service, orchard: str, tree: str) -> None:
    found = answer(running, orchard, "judges in the court", tree=tree, filters={"path": "0*.md"})
    assert found["results"]
    assert all(hit["file_path"].startswith("0") for hit in found["results"])


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_no_summary_is_shown_below_which_no_file_passes(running: Service, orchard: str, tree: str) -> None:
    asked: dict[str, Any] = {"query": "judges in the court", "tree": tree, "top_k": 50, "beam": 100}
    found = answer(running, orchard, **asked, expand_to_leaves=False, filters={"path": "00.md"})
    levels = [each["level"] for each in found["summaries"]]
    assert sorted(levels) == list(range(1, tree_status(running, orchard)["max_level"] + 1))
    assert all("00.md" in each["file_paths"] for each in found["summaries"])


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_a_filter_that_the_store_applies_also_leaves_out_summaries(running: Service, root: Path, tree: str) -> None:
    path = folder(root, f"mixed-{tree}")
    (path / "00.md").rename(path / "00.txt")
    tool = running.local_tool(path, config={"raptor": TREE})
    running.wait(tool)
    built(running, tool)
    asked: dict[str, Any] = {"query": "judges in the court", "tree": tree, "top_k": 50, "beam": 100}
    found = answer(running, tool, **asked, expand_to_leaves=False, filters={"types": ["text"]})
    assert found["summaries"]
    assert all("00.txt" in each["file_paths"] for each in found["summaries"])


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_the_options_of_a_plain_search_hold_for_trees(running: Service, orchard: str, tree: str) -> None:
    asked: dict[str, Any] = {"query": "judges in the court", "tree": tree, "top_k": 5}
    files = answer(running, orchard, **asked, group_by_file=True)["results"]
    assert len({hit["file_path"] for hit in files}) == len(files) == 5
    assert all(hit["pieces"] for hit in files)
    around = answer(running, orchard, **asked, before=1, after=1)["results"]
    assert all(hit["before"] is not None and hit["after"] is not None for hit in around)
    chosen = answer(running, orchard, **asked, fields=["file_path"])["results"]
    assert all("chunk_text" not in hit and hit["file_path"] for hit in chosen)
    none = answer(running, orchard, **asked, min_score=1)
    assert (none["results"], [note["code"] for note in none["notes"]]) == ([], ["below_min_score"])
    traced = answer(running, orchard, **asked, trace=True)["trace"]
    assert [step["step"] for step in traced] == ["embed", "tree"]
    stale = answer(running, orchard, **asked, refresh="if_stale")["coverage"]
    assert stale == {"indexed_files": 24, "total_files": 24, "stale_files": 0, "vector_share": 1.0}
    nothing = {**asked, "filters": {"types": ["pdf"]}}
    refused = running.client.post(f"{TOOLS}/{orchard}/query", json=nothing)
    assert checked(refused, 422)["code"] == "no_such_files"


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_the_steps_of_a_tree_search_are_streamed(running: Service, orchard: str, tree: str) -> None:
    body = {"query": "judges in the court", "tree": tree}
    accept = {"accept": "text/event-stream"}
    streamed = running.client.post(f"{TOOLS}/{orchard}/query", json=body, headers=accept).text
    named = re.findall(r"^event: (\w+)$", streamed, re.MULTILINE)
    assert named == ["step", "step", "answer"]


def test_a_search_without_tree_is_as_before_the_tree(running: Service, root: Path) -> None:
    tool = running.local_tool(folder(root, "plain", 9))
    running.wait(tool)

    def shown(**body: Any) -> bytes:
        sent = {"query": "judges in the court", "explain": True, **body}
        response = running.client.post(f"{TOOLS}/{tool}/query", json=sent)
        return re.sub(rb'"took_ms":[0-9.]+', b"", response.content)

    before = shown()
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": TREE}}), 202)
    built(running, tool)
    assert shown() == shown(tree="off") == before
    assert b"raptor" in shown(tree="collapsed", explain=False)


def test_a_tool_without_a_tree_says_so(running: Service, root: Path, orchard: str) -> None:
    plain = running.local_tool(folder(root, "bare", 3))
    running.wait(plain)
    status = tree_status(running, plain)
    assert not status["has_index"]
    assert (status["indexing_status"], status["total_nodes"], status["levels"]) == ("none", 0, [])
    for body in ({"tree": "collapsed"}, {"tree": "tree_traversal"}):
        response = running.client.post(f"{TOOLS}/{plain}/query", json={"query": "apples", **body})
        assert checked(response, 422)["code"] == "no_tree"
    response = running.client.get(f"{TOOLS}/{plain}/raptor/nodes")
    assert checked(response, 422)["code"] == "no_tree"
    response = running.client.post(
        f"{TOOLS}/{orchard}/query", json={"query": "a", "tree": "collapsed", "mode": "keyword"}
    )
    assert checked(response, 422)["code"] == "invalid_request"


@pytest.mark.parametrize(
    "raptor",
    [
        {"max_layers": 0}, {"max_layers": 6}, {"cluster_method": "magic"}, {"summary_prompt": "no place"},
        {"min_cluster_size": 1}, {"summary_num_workers": 0}, {"max_leaves": 0}, {"max_tokens": 0}, {"more": 1},
    ],
)  # fmt: skip # a line each says nothing
def test_a_config_outside_its_range(running: Service, root: Path, raptor: dict[str, Any]) -> None:
    body = {"project_id": "p", "source": {"kind": "local", "path": str(root)}, "config": {"raptor": raptor}}
    assert running.client.post(TOOLS, json=body).status_code == 422


def indexers(service: Service) -> dict[str, dict[str, Any]]:
    """The rows of the indexers, by name."""
    response = service.client.get("/api/indexers")
    assert response.status_code == 200, response.text
    return {row["name"]: row for row in response.json()}


def test_the_indexers_and_their_configs(running: Service) -> None:
    rows = indexers(running)
    assert {name: row["status"] for name, row in rows.items()} == {"chunks": "available", "raptor": "available"}
    assert all(set(row) == {"name", "description", "status", "config_schema"} for row in rows.values())
    fields = rows["raptor"]["config_schema"]["properties"]
    assert (fields["max_layers"]["minimum"], fields["max_layers"]["maximum"]) == (1, 5)
    assert fields["cluster_method"]["enum"] == ["gmm", "kmeans", "adjacent"]
    assert "chunk_size" in rows["chunks"]["config_schema"]["properties"]
    assert "raptor" not in rows["chunks"]["config_schema"]["properties"]


def test_without_a_language_model(running: Service, root: Path) -> None:
    with another_api(running, DEFAULT_LLM_MODEL="") as bare:
        statuses = {name: row["status"] for name, row in indexers(bare).items()}
        assert statuses == {"chunks": "available", "raptor": "not_configured"}
        source = {"kind": "local", "path": str(folder(root, "modelless", 3))}
        with_tree = {"source": source, "config": {"raptor": {"enabled": True}}}
        refused = checked(bare.client.post(TOOLS, json={"project_id": "p", **with_tree}), 422)
        assert refused["code"] == "llm_not_configured"
        assert "DEFAULT_LLM_MODEL" in refused["detail"]
        plain = bare.tool(project="p", source=source)
        patch = {"config": {"raptor": {"enabled": True}}}
        assert checked(bare.client.patch(f"{TOOLS}/{plain}", json=patch), 422)["code"] == "llm_not_configured"
        # whoever has a tree can still say who may read its files
        kept = running.tool(project="p", **with_tree)
        rules = [{"path": "**", "acl": ["group:hr"]}]
        changed = checked(bare.client.patch(f"{TOOLS}/{kept}", json={"config": {"rules": rules}}), 202)
        assert (changed["config"]["rules"][0]["acl"], changed["config"]["raptor"]["enabled"]) == (["group:hr"], True)
        other = {"config": {"raptor": {"max_layers": 2}}}
        assert checked(bare.client.patch(f"{TOOLS}/{kept}", json=other), 422)["code"] == "llm_not_configured"
        named = {"config": {"raptor": {"enabled": True, "llm_model": LOCAL_LLM}}}
        assert bare.client.patch(f"{TOOLS}/{plain}", json=named).status_code == 202


def test_a_patch_keeps_the_index_and_what_it_omits(running: Service, root: Path) -> None:
    tool = running.local_tool(folder(root, "patched", 6))
    running.wait(tool)
    before = running.get(f"{TOOLS}/{tool}")
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": {**TREE, "max_layers": 1}}}), 202)
    built(running, tool)
    after = checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": {"max_layers": 2}}}), 202)
    assert after["index"] == before["index"]
    assert after["updating"] is None
    assert (after["config"]["raptor"]["max_layers"], after["config"]["raptor"]["enabled"]) == (2, True)
    built(running, tool)
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": None}}), 202)
    assert tree_status(running, tool)["indexing_status"] == "none"


def test_a_build_enables_the_tree_and_a_delete_removes_it(running: Service, root: Path) -> None:
    tool = running.local_tool(folder(root, "deleted", 6))
    running.wait(tool)
    first = running.post(f"{TOOLS}/{tool}/raptor/build", {})
    assert first["indexing_status"] in {"pending", "indexing", "indexed"}
    # joins the build that is open
    running.post(f"{TOOLS}/{tool}/raptor/build", {"full": True})
    built(running, tool)
    assert running.get(f"{TOOLS}/{tool}")["config"]["raptor"]["enabled"]
    checked(running.client.delete(f"{TOOLS}/{tool}/raptor"), 202)
    assert not tree_status(running, tool)["has_index"]
    assert not running.get(f"{TOOLS}/{tool}")["config"]["raptor"]["enabled"]
    (index,) = [row for (row,) in running.rows("SELECT index_id FROM search_tool WHERE id = %s", tool)]
    unconfirmed = "SELECT count(*) FROM tree_tombstone WHERE index_id = %s AND deleted_at IS NULL"
    eventually(lambda: running.rows(unconfirmed, index) == [(0,)], 30, running.logs)
    assert running.rows("SELECT count(*) FROM summary_tree WHERE index_id = %s", index) == [(0,)]


def test_an_edit_reaches_the_tree(running: Service, root: Path) -> None:
    path = folder(root, "edited", 9)
    tool = running.local_tool(path, config={"raptor": TREE})
    running.wait(tool)
    built(running, tool)
    (path / "03.md").write_text("# A new chapter\n\nThe zebra sleeps below the old bridge near the river.\n")
    running.post(f"{TOOLS}/{tool}/reindex", {})
    running.wait(tool)
    eventually(lambda: "zebra" in str(running.get(f"{TOOLS}/{tool}/raptor/nodes")), 60, running.logs)


def _pool(running: Service) -> list[int]:
    """The processes of the worker that run tasks. Another child is Celery's beat, which nobody starts again."""
    found: list[int] = []

    def answered() -> bool:
        for stats in (app.control.inspect(timeout=5, limit=1).stats() or {}).values():
            found.extend(stats["pool"]["processes"])
        return bool(found)

    with make_app(running.env["CELERY_BROKER_URL"]) as app:
        eventually(answered, 60, running.logs)
    return found


def test_killed_workers_end_in_a_complete_tree(running: Service, root: Path) -> None:
    tool = running.local_tool(folder(root, "killed", 60), config={"raptor": TREE})
    running.wait(tool)
    for _ in range(2):
        eventually(lambda: tree_status(running, tool)["indexing_status"] in {"indexing", "indexed"}, 30)
        for pid in _pool(running):
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)
    status = built(running, tool, 90)
    assert status["leaf_nodes"] == 60
    assert running.rows("SELECT count(*) FROM tree_node WHERE live AND text IS NULL AND skip_reason IS NULL") == [(0,)]


def test_a_deleted_tool_takes_its_tree_along(running: Service, root: Path) -> None:
    tool = running.local_tool(folder(root, "gone", 9), config={"raptor": TREE})
    running.wait(tool)
    built(running, tool)
    (index,) = [row for (row,) in running.rows("SELECT index_id FROM search_tool WHERE id = %s", tool)]
    checked(running.client.delete(f"{TOOLS}/{tool}"), 202)
    eventually(lambda: running.rows("SELECT 1 FROM summary_tree WHERE index_id = %s", index) == [], 30, running.logs)


def test_the_paths_of_knowledge_bases_are_the_same_calls(running: Service, root: Path, orchard: str) -> None:
    status = tree_status(running, orchard)
    base = f"/v1/knowledge-bases/{orchard}/raptor"
    assert running.get(base) == running.get(f"{base}/status") == status
    tool = running.local_tool(folder(root, "alias", 6))
    running.wait(tool)
    base = f"/v1/knowledge-bases/{tool}/raptor"
    running.post(f"{base}/build", {})
    running.post(base, {})
    built(running, tool)
    checked(running.client.delete(base), 202)
    assert not running.get(base)["has_index"]
    with another_api(running, AUTH="on") as guarded:
        assert guarded.client.get(base).status_code == 401
        assert guarded.client.delete(base).status_code == 401


def test_a_tree_is_built_and_walked_in_a_terminal(running: Service, root: Path) -> None:
    folder = root / "wood"
    folder.mkdir()
    for name in ("ash", "elm", "oak", "yew"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nThe {name} is a tree of the northern woods.\n")
    assert foldex(running, "index", str(folder)).returncode == 0
    assert foldex(running, "tree", "status", str(folder)).returncode == 1
    done = foldex(running, "tree", "build", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("indexed, level 0: 4 nodes, level 1: 1 node,")
    shown = foldex(running, "tree", "show", str(folder))
    assert shown.returncode == 0
    assert "northern woods" in shown.stdout
    [summary] = json.loads(foldex(running, "tree", "show", str(folder), "--json").stdout)["items"]
    below = foldex(running, "tree", "show", str(folder), "--parent", summary["node_id"], "--json")
    assert {path for node in json.loads(below.stdout)["items"] for path in node["file_paths"]} == {
        "ash.md", "elm.md", "oak.md", "yew.md",
    }  # fmt: skip # a line each says nothing
    assert foldex(running, "tree", "show", str(folder), "--level", "3").returncode == 1
    for verb, shape in TREE_DOCUMENTS.items():
        assert items_of(foldex(running, *verb, "wood", "--json").stdout, shape), verb
    found = foldex(running, "search", "trees of the woods", str(folder), "--tree", "collapsed")
    assert found.returncode == 0
    assert "found through the summary: " in found.stdout
