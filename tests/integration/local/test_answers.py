"""What an answer holds: addresses of hits, chunks of files, streamed steps, a minimum score and times of files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.service import PROJECT, TOOLS, Service, checked, eventually

DISHES = {
    "pasta.md": "Boil pasta in salted water for nine minutes.",
    "rice.md": "Rice needs twice its volume of water.",
    "bread.md": "Bake bread until its crust is dark.",
}


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    (root / "dishes").mkdir()
    for name, text in DISHES.items():
        (root / "dishes" / name).write_text(text)
    (root / "dishes" / "long.txt").write_text("".join(f"line {n} tells of things\n" for n in range(1, 1001)))
    made = running.local_tool(root / "dishes")
    running.wait(made)
    return made


def test_a_hit_has_the_address_of_its_node_or_of_the_tools_template(running: Service) -> None:
    folder = running.node("addresses", "folder")
    url = "https://wiki.example/otters"
    node = running.node("otters.md", "markdown", "otters swim", parent_id=folder, url=url)
    running.node("a b.md", "markdown", "otters sleep", parent_id=folder)
    tool = running.tool(node_id=folder, config={"url_template": "https://host/{file_path}#L{start_line}"})
    plain = running.tool(node_id=folder)
    running.wait(tool)

    def urls(of: str) -> dict[str, str | None]:
        return {hit["file_path"]: hit["url"] for hit in running.query(of, "otters")}

    assert urls(tool) == {"otters.md": url, "a b.md": "https://host/a%20b.md#L1"}
    assert urls(plain) == {"otters.md": url, "a b.md": None}
    shown = [running.get(f"{TOOLS}/{each}") for each in (tool, plain)]
    assert shown[0]["index"] == shown[1]["index"]
    tasks = running.get(f"{TOOLS}/{tool}/tasks")
    config = {"url_template": "http://other/{file_id}/{chunk_id}"}
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": config}), 202)
    checked(running.client.patch(f"/api/projects/{PROJECT}/nodes/{node}", json={"url": None}), 200)
    hits = {hit["chunk_id"]: hit["file_id"] for hit in running.query(plain, "otters")}
    wanted = {f"http://other/{file}/{chunk}" for chunk, file in hits.items()}
    # a process answers with a tool's earlier config for a moment
    eventually(lambda: set(urls(tool).values()) == wanted, 20, running.logs)
    assert running.get(f"{TOOLS}/{tool}/tasks") == tasks
    for wrong in ("https://host/{line}", "javascript:alert(1)"):
        problem = checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"url_template": wrong}}), 422)
        assert "url_template" in problem["detail"]


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_the_chunks_of_a_file_are_listed_in_pages(running: Service, tool: str, limit: int) -> None:
    hit = running.query(tool, "line 500 tells of things", filters={"path": "long.txt"})[0]
    path = f"{TOOLS}/{tool}/files/{hit['file_id']}"
    listed = running.pages(f"{path}/chunks", limit=limit)
    assert [chunk["chunk_index"] for chunk in listed] == list(range(hit["total_chunks"]))
    same = listed[hit["chunk_index"]]
    assert {name: same[name] for name in same if name not in {"tokens", "context"}} == {
        name: hit.get(name) for name in same if name not in {"tokens", "context"}
    }
    text = running.get(path)["text"]
    assert all(text[chunk["start_char"] : chunk["end_char"]] == chunk["chunk_text"] for chunk in listed)
    assert all(0 < chunk["tokens"] <= len(chunk["chunk_text"]) for chunk in listed)
    running.rows("UPDATE chunk SET live = false WHERE id = %s", same["chunk_id"])
    try:
        assert same["chunk_id"] not in {chunk["chunk_id"] for chunk in running.pages(f"{path}/chunks", limit=limit)}
    finally:
        running.rows("UPDATE chunk SET live = true WHERE id = %s", same["chunk_id"])
    for file in ("missing", PROJECT, hit["chunk_id"]):
        assert "file" in checked(running.client.get(f"{TOOLS}/{tool}/files/{file}/chunks"), 404)["detail"]
    checked(running.client.get(f"{path}/chunks", params={"cursor": "?"}), 422)


def streamed(running: Service, tool: str, **body: Any) -> list[tuple[str, dict[str, Any]]]:
    """The events of a query."""
    headers = {"accept": "text/event-stream"}
    answer = running.client.post(f"{TOOLS}/{tool}/query", json=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    events = [event.split("\ndata: ") for event in answer.text.split("\n\n") if not event.startswith(":")]
    return [(event[0].removeprefix("event: "), json.loads(event[1])) for event in events if len(event) > 1]


def test_a_query_streams_its_steps_and_then_its_answer(running: Service, tool: str) -> None:
    *steps, (name, answer) = streamed(running, tool, query="pasta in salted water", trace=True, fields=["chunk_id"])
    assert [step for _, step in steps] == answer["trace"]
    assert ({name for name, _ in steps}, name) == ({"step"}, "answer")
    assert [step["step"] for _, step in steps] == ["embed", "store", "rows"]
    plain = running.query(tool, "pasta in salted water")
    assert answer["results"] == [{"chunk_id": hit["chunk_id"]} for hit in plain]
    ((name, problem),) = streamed(running, tool, query="pasta", filters={"path": "nowhere/**"})
    assert (name, problem["status"], problem["code"]) == ("error", 422, "no_such_files")
    refused = running.client.post(f"{TOOLS}/{tool}/query", json={}, headers={"accept": "text/event-stream"})
    assert checked(refused, 422)["code"] == "invalid_request"


def test_hits_below_a_score_are_dropped(running: Service, tool: str) -> None:
    hits = running.query(tool, "pasta in salted water")
    least = hits[1]["score"]
    kept = [hit for hit in hits if hit["score"] >= least]
    assert running.query(tool, "pasta in salted water", min_score=least) == kept != hits
    body = {"query": "pasta in salted water", "mode": "vector", "min_score": 1}
    none = running.post(f"{TOOLS}/{tool}/query", body, 200)
    assert (none["results"], none["total_results"]) == ([], 0)
    assert [note["code"] for note in none["notes"]] == ["below_min_score"]
    for wrong in (-0.1, 1.1, "much"):
        checked(running.client.post(f"{TOOLS}/{tool}/query", json={**body, "min_score": wrong}), 422)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_files_are_filtered_by_the_time_of_their_last_change(running: Service, root: Path, mode: str) -> None:
    times = {"old.md": 1_600_000_000, "middle.md": 1_700_000_000, "new.md": 1_700_000_060}
    folder = root / f"times-{mode}"
    folder.mkdir()
    for name, seconds in times.items():
        (folder / name).write_text(f"kestrels hover, says {name}")
        os.utime(folder / name, (seconds, seconds))
    made = running.local_tool(folder)
    running.wait(made)

    def names(**filters: Any) -> set[str]:
        # as many as may be returned pass the filters
        hits = running.query(made, "kestrels hover", mode=mode, filters=filters, top_k=2)
        return {hit["file_path"] for hit in hits}

    middle, new = "2023-11-14T22:13:20Z", "2023-11-14T23:14:20+01:00"
    assert names(modified_after=middle) == {"middle.md", "new.md"}
    assert names(modified_before=middle) == {"old.md"}
    assert names(modified_after=middle, modified_before=new) == {"middle.md"}
    assert names(modified_after=new, path="*.md", types=["markdown"]) == {"new.md"}
    body = {"query": "kestrels", "mode": mode}
    for wrong in ("2023-11-14T22:13:20", "2023-11-14", "yesterday", "1700000000", 1_700_000_000):
        filters = {"modified_after": wrong}
        problem = checked(running.client.post(f"{TOOLS}/{made}/query", json={**body, "filters": filters}), 422)
        assert "modified_after" in problem["detail"]
    filters = {"modified_after": new, "modified_before": middle}
    problem = checked(running.client.post(f"{TOOLS}/{made}/query", json={**body, "filters": filters}), 422)
    assert (problem["code"], middle in problem["detail"]) == ("no_such_files", True)
