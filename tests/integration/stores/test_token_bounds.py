"""Files outside a tool's token bounds: free, found by keywords, returned as a whole, and without drift."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from schemas.queries.search import UNEMBEDDED_CHARACTERS
from tests.integration.stores.ground import LONG_AGO, Ground
from tests.service import TOOLS, checked, eventually
from worker.state.index import drift
from worker.tokens.tokenizers import cl100k

BOUNDS = {"min_token_count": 20, "max_token_count": 40}


def of_tokens(word: str, tokens: int) -> str:
    """A text about a word with exactly this many tokens, in lines."""
    text = word
    while len(cl100k().starts(text)) < tokens:
        text += "\nso" if len(cl100k().starts(text)) % 8 == 0 and len(cl100k().starts(text)) + 2 <= tokens else " on"
    assert len(cl100k().starts(text)) == tokens
    return text


def write(folder: Path, **texts: str) -> Path:
    """Write text files whose stamps can be trusted."""
    folder.mkdir(exist_ok=True)
    for number, (name, text) in enumerate(texts.items()):
        path = folder / f"{name}.txt"
        path.write_text(text)
        os.utime(path, (LONG_AGO, LONG_AGO + number + len(text)))
    return folder


@pytest.fixture
def folder(ground: Ground) -> Path:
    """A file on each side of both bounds, each about its own word."""
    name = f"w{uuid4().hex[:12]}"
    sizes = {"tiny": 19, "low": 20, "high": 40, "large": 41}
    return write(ground.root / name, **{n: of_tokens(f"zebra {n} {name}", size) for n, size in sizes.items()})


def indexed(ground: Ground, folder: Path, **config: Any) -> tuple[str, dict[str, Any]]:
    ground.provider.reset()
    tool = ground.service.local_tool(folder, config=config)
    return tool, ground.service.wait(tool)


def again(ground: Ground, tool: str) -> dict[str, Any]:
    ground.provider.reset()
    ground.service.post(f"{TOOLS}/{tool}/reindex", None)
    return ground.service.wait(tool)


def embedded(ground: Ground, tool: str) -> dict[str, bool]:
    return {file["file_name"].removesuffix(".txt"): file["embedded"] for file in ground.service.files(tool)}


def names(ground: Ground, tool: str, mode: str, query: str = "zebra", **body: Any) -> set[str]:
    hits = ground.service.query(tool, query, mode=mode, **body)
    return {hit["file_name"].removesuffix(".txt") for hit in hits}


def patch(ground: Ground, tool: str, **config: Any) -> int:
    """Change the config, and wait for the new index. Returns the paid texts."""
    ground.provider.reset()
    before = ground.service.get(f"{TOOLS}/{tool}")["index"]
    checked(ground.service.client.patch(f"{TOOLS}/{tool}", json={"config": config}), 202)
    eventually(lambda: ground.service.get(f"{TOOLS}/{tool}")["updating"] is None, 30, ground.service.logs)
    assert ground.service.get(f"{TOOLS}/{tool}")["index"] != before
    return ground.paid()


def test_bounds_are_inclusive_and_what_is_outside_costs_nothing(ground: Ground, folder: Path) -> None:
    tool, status = indexed(ground, folder, **BOUNDS)
    assert embedded(ground, tool) == {"tiny": False, "low": True, "high": True, "large": False}
    assert (status["indexed_files"], status["skipped_files"], status["total_chunks"]) == (4, 0, 4)
    assert (status["embedded_chunks"], status["reused_chunks"], ground.paid()) == (2, 0, 2)
    outside = {file["file_name"]: file for file in ground.service.files(tool, status="indexed")}["tiny.txt"]
    assert (outside["reason"], "words only" in outside["message"]) == (None, True)
    assert "min_token_count" in outside["remedy"]
    assert {"read", "parse", "chunk", "write"} <= outside["timings"].keys()
    rows = ground.service.rows(
        "SELECT c.embedded FROM chunk c JOIN search_tool s USING (index_id) WHERE s.id = %s", tool
    )
    assert sorted(rows) == [(False,), (False,), (True,), (True,)]


def test_words_find_them_and_meaning_does_not(ground: Ground, folder: Path) -> None:
    tool, _ = indexed(ground, folder, **BOUNDS)
    everything = {"tiny", "low", "high", "large"}
    assert names(ground, tool, "vector") == {"low", "high"}
    assert names(ground, tool, "keyword") == names(ground, tool, "hybrid") == everything
    assert names(ground, tool, "hybrid", filters={"path": "t*.txt"}) == {"tiny"}
    assert names(ground, tool, "vector", filters={"path": "t*.txt"}) == set()
    assert names(ground, tool, "keyword", filters={"types": ["text"]}) == everything
    answer = ground.service.post(f"{TOOLS}/{tool}/query", {"query": "zebra tiny"}, 200)
    assert answer["coverage"] == {"indexed_files": 4, "total_files": 4, "stale_files": None, "vector_share": 1.0}
    (hit,) = [hit for hit in answer["results"] if hit["file_name"] == "tiny.txt"]
    assert (hit["embedded"], hit["distance"], "whole" in hit) == (False, None, False)
    assert all(hit["embedded"] == (hit["distance"] is not None) for hit in answer["results"])


def test_nothing_is_missing_and_what_the_store_lost_comes_back(ground: Ground, folder: Path) -> None:
    tool, _ = indexed(ground, folder, **BOUNDS)
    index = ground.index(tool)
    # keywords in Postgres need no row in the store
    expected = 4 if index.keyword_index == "store" else 2
    assert (len(ground.stored(index)), ground.differs(index)) == (expected, {})
    ground.store(index).drop(index.namespace)
    assert ground.differs(index) == {"missing": expected}
    again(ground, tool)
    eventually(lambda: ground.differs(index) == {}, 20, ground.service.logs)
    ground.service.wait(tool)
    assert (len(ground.stored(index)), ground.paid()) == (expected, 0)
    assert names(ground, tool, "vector") == {"low", "high"}
    assert names(ground, tool, "keyword") == {"tiny", "low", "high", "large"}


def test_an_index_without_any_vector_is_not_searched_for_lost_ones(ground: Ground, folder: Path) -> None:
    tool, status = indexed(ground, folder, max_token_count=0)
    assert (status["indexed_files"], status["embedded_chunks"], ground.paid()) == (4, 0, 0)
    index = ground.index(tool)
    ground.execute("UPDATE search_index SET checked_at = now() - interval '1 hour' WHERE id = %s", index.id)
    assert not drift.request_comparison(ground.resources.pool, index.id)
    assert names(ground, tool, "hybrid") == {"tiny", "low", "high", "large"}
    assert names(ground, tool, "vector") == set()
    assert ground.differs(index) == {}


def test_changed_bounds_pay_for_what_enters_only(ground: Ground, folder: Path) -> None:
    tool, _ = indexed(ground, folder, **BOUNDS)
    assert patch(ground, tool, min_token_count=0) == 1
    assert embedded(ground, tool) == {"tiny": True, "low": True, "high": True, "large": False}
    assert patch(ground, tool, max_token_count=None) == 1
    assert set(embedded(ground, tool).values()) == {True}
    assert ground.service.status(tool)["embedded_chunks"] == 1
    assert patch(ground, tool, min_token_count=30) == 0
    assert embedded(ground, tool) == {"tiny": False, "low": False, "high": True, "large": True}
    assert names(ground, tool, "vector") == {"high", "large"}
    assert ground.differs(ground.index(tool)) == {}


def test_bounds_that_no_file_can_meet_are_refused(ground: Ground, folder: Path) -> None:
    body = {"project_id": "project-1", "source": {"kind": "local", "path": str(folder)}}
    for config in ({"min_token_count": 3, "max_token_count": 2}, {"min_token_count": -1}, {"max_token_count": "x"}):
        refused = ground.service.client.post(TOOLS, json={**body, "config": config})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), config
    tool, _ = indexed(ground, folder, **BOUNDS)
    refused = ground.service.client.patch(f"{TOOLS}/{tool}", json={"config": {"max_token_count": 1}})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


def test_files_that_grow_shrink_and_move_across_a_border(ground: Ground, folder: Path) -> None:
    tool, _ = indexed(ground, folder, **BOUNDS)
    index = ground.index(tool)
    word = folder.name
    write(folder, tiny=of_tokens(f"zebra tiny {word}", 21), high=of_tokens(f"zebra high {word}", 42))
    (folder / "large.txt").rename(folder / "giraffe.txt")
    status = again(ground, tool)
    # the moved file is chunked again under another id, and still costs nothing
    assert (status["embedded_chunks"], ground.paid()) == (1, 1)
    assert embedded(ground, tool) == {"tiny": True, "low": True, "high": False, "giraffe": False}
    assert names(ground, tool, "vector") == {"tiny", "low"}
    assert ground.service.query(tool, "giraffe.txt", mode="keyword")[0]["file_path"] == "giraffe.txt"
    assert ground.differs(index) == {}
    # the same text that had no vector gets one, and vice versa
    write(folder, low=of_tokens(f"zebra low {word}", 20) + " on" * 30, high=of_tokens(f"zebra high {word}", 40))
    again(ground, tool)
    assert embedded(ground, tool) == {"tiny": True, "low": False, "high": True, "giraffe": False}
    assert names(ground, tool, "vector") == {"tiny", "high"}
    assert ground.differs(index) == {}


def test_a_node_that_is_renamed_is_found_by_its_new_name(ground: Ground) -> None:
    running = ground.service
    parent = running.node("bounded", "folder")
    node = running.node("plain.md", "markdown", "about a zebra", parent_id=parent)
    tool = running.tool(node_id=parent, config={"min_token_count": 100})
    running.wait(tool)
    checked(running.client.patch(f"/api/projects/project-1/nodes/{node}", json={"name": "giraffe.md"}), 200)
    running.post(f"{TOOLS}/{tool}/reindex", None)
    running.wait(tool)
    (hit,) = running.query(tool, "giraffe.md", mode="keyword")
    assert (hit["file_path"], hit["embedded"]) == ("giraffe.md", False)
    assert running.files(tool)[0]["embedded"] is False
    assert ground.differs(ground.index(tool)) == {}


def test_whole_files_follow_the_best_words_first(ground: Ground, folder: Path) -> None:
    middle = "\n".join(f"a line about giraffes, number {number}" for number in range(30))
    longest = "\n".join(f"a line about zebras, number {number}" for number in range(2000))
    write(folder, middle=middle, longest=longest)
    tool, _ = indexed(ground, folder, **BOUNDS)
    assert len(middle) < UNEMBEDDED_CHARACTERS < len(longest)
    for mode in ("hybrid", "vector", "keyword"):
        hits = ground.service.query(tool, "giraffes", mode=mode, include_unembedded=True)
        whole = [hit for hit in hits if hit["whole"]]
        assert hits[-len(whole) :] == whole
        # files without a matching word follow by path; files longer than an answer may add are left out
        assert [hit["file_name"] for hit in whole] == ["middle.txt", "large.txt", "tiny.txt"], mode
        assert (whole[0]["chunk_text"], whole[0]["score"], whole[0]["distance"]) == (middle, 1.0, None)
        assert (whole[0]["start_line"], whole[0]["end_line"], whole[0]["total_chunks"] > 1) == (1, 30, True)
        assert (whole[0]["start_char"], whole[0]["end_char"], whole[0]["embedded"]) == (0, len(middle), False)
        assert [hit["score"] for hit in whole[1:]] == [0.0, 0.0]
        # nothing is returned twice
        assert {hit["file_name"] for hit in hits if not hit["whole"]} & {hit["file_name"] for hit in whole} == set()
    assert "longest" in names(ground, tool, "keyword", "zebras", include_unembedded=True)


def test_whole_files_obey_filters_and_top_k(ground: Ground, folder: Path) -> None:
    tool, _ = indexed(ground, folder, **BOUNDS)

    def whole(**body: Any) -> list[str]:
        hits = ground.service.query(tool, "giraffes", include_unembedded=True, **body)
        return [hit["file_name"] for hit in hits if hit["whole"]]

    assert whole() == ["large.txt", "tiny.txt"]
    assert whole(top_k=1) == ["large.txt"]
    assert whole(filters={"path": "t*.txt"}) == ["tiny.txt"]
    assert whole(filters={"types": ["text"], "level": 0}) == ["large.txt", "tiny.txt"]
    assert whole(filters={"path": "low.txt"}) == []
    assert ["whole" in hit for hit in ground.service.query(tool, "giraffes", mode="vector")] == [False, False]


def test_a_whole_json_document_says_so(ground: Ground) -> None:
    running = ground.service
    parent = running.node("json", "folder")
    content = {"a": {"zebra": 1}, "b": [1, 2, 3]}
    node = running.node("data.json", "json", content, parent_id=parent)
    config = {"min_token_count": 1000}
    tool, narrow = (
        running.tool(node_id=parent, config=config),
        running.tool(node_id=node, json_pointer="/b", config=config),
    )
    running.wait(tool)
    running.wait(narrow)
    (hit,) = [hit for hit in running.query(tool, "zebra", include_unembedded=True) if hit["whole"]]
    shown = running.get(f"{TOOLS}/{tool}/files/{hit['file_id']}")
    assert (hit["json_pointer"], hit["chunk_text"], hit["file_type"]) == ("", shown["text"], "json")
    (hit,) = [hit for hit in running.query(narrow, "3", include_unembedded=True) if hit["whole"]]
    assert (hit["json_pointer"], "zebra" in hit["chunk_text"], "3" in hit["chunk_text"]) == ("/b", False, True)
    assert shown["text"][hit["start_char"] : hit["end_char"]] == hit["chunk_text"]
