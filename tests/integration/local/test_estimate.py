"""A dry run: what indexing a folder would read, skip and pay, compared with what it then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.integration.local.test_ignored import write
from tests.service import PROJECT, TOOLS, Service, checked, eventually


def estimate(running: Service, folder: Path, **config: Any) -> dict[str, Any]:
    source = {"kind": "local", "path": str(folder)}
    return running.post(TOOLS, {"project_id": PROJECT, "source": source, "dry_run": True, "config": config}, 200)


def within(number: float, estimated: dict[str, float]) -> bool:
    return estimated["low"] <= number <= estimated["high"]


def sections(name: str, number: int) -> str:
    words = " ".join(f"Sentence {place} of {name} tells of apples and birds." for place in range(number))
    return f"# {name}\n\n{words}\n\n## More\n\n{words}\n"


def test_an_estimate_holds_what_the_run_does(running: Service, root: Path) -> None:
    folder = write(
        root / uuid4().hex,
        {
            **{f"docs/{number}.md": sections(f"part {number}", 1 + number % 7) for number in range(30)},
            "code.py": "def apples():\n    return 1\n" * 20,
            "empty.txt": "",
            "film.mp4": "x",
            "nul.txt": b"some\0words",
            "uv.lock": "locked",
            "page.html": "<html><body>Hello</body></html>",
            ".git/config": "",
        },
    )
    before = running.rows("SELECT count(*) FROM search_tool")
    estimated = estimate(running, folder)
    assert running.rows("SELECT count(*) FROM search_tool") == before
    tool = running.local_tool(folder)
    status = running.wait(tool)
    files = running.files(tool)
    assert (estimated["complete"], estimated["total_files"]) == (True, status["total_files"])
    assert estimated["total_bytes"] == sum(file["size"] for file in files)
    assert estimated["ignored"] == status["ignored"] == {"locks": 1, "vcs_directories": 1}
    assert (estimated["skipped"], estimated["skipped_in_sample"]) == (
        {"empty": 1, "unsupported_type": 1},
        {"binary": 1},
    )
    assert (estimated["sampled_files"], estimated["unchanged_files"]) == (32, 0)
    assert (estimated["uncounted_files"], estimated["uncounted_bytes"]) == (1, 31)
    html = sum(file["tokens"] for file in files if file["file_path"] == "page.html")
    assert within(status["tokens"] - html, estimated["tokens"])
    # a local model is free
    assert (estimated["price"], estimated["cost"]) == (0, {"expected": 0, "low": 0, "high": 0})


def test_a_large_folder_is_sampled_and_always_in_the_same_way(running: Service, root: Path) -> None:
    folder = write(root / uuid4().hex, {f"{number}.md": f"words {number}" * (number % 9 + 1) for number in range(600)})
    estimated = estimate(running, folder)
    assert (estimated["total_files"], estimated["sampled_files"]) == (600, 200)
    assert estimated == estimate(running, folder)


def test_what_an_index_holds_already_costs_nothing(running: Service, root: Path) -> None:
    folder = write(root / uuid4().hex, {"a.md": sections("a", 3), "b.md": sections("b", 3)})
    running.wait(running.local_tool(folder))
    write(folder, {"b.md": sections("other", 9)})
    same = estimate(running, folder)
    assert (same["total_files"], same["unchanged_files"], same["sampled_files"]) == (2, 1, 1)
    # another limit of cost needs no other index, and another size of chunks does
    assert estimate(running, folder, max_cost_tokens=5)["unchanged_files"] == 1
    assert estimate(running, folder, chunk_size=99)["unchanged_files"] == 0


def test_the_config_decides_what_is_counted(running: Service, root: Path) -> None:
    folder = write(root / uuid4().hex, {"a.md": sections("a", 3), "b.txt": sections("b", 3), "c.txt": "few words"})
    everything = estimate(running, folder)["tokens"]["expected"]
    by_type = estimate(running, folder, types=["txt"])
    assert (by_type["total_files"], by_type["ignored"]) == (2, {"types": 1})
    assert 0 < by_type["tokens"]["expected"] < everything
    assert estimate(running, folder, include=["c.txt"], min_token_count=50)["tokens"]["expected"] == 0


def test_packed_chunks_are_fewer_as_estimated_and_a_patch_builds_them(running: Service, root: Path) -> None:
    code = "\n\n".join(f"def work{n}(apples):\n" + f"    birds = call({n}, apples)\n" * 3 for n in range(60))
    folder = write(root / uuid4().hex, {"code.py": code, **{f"{n}.md": sections(f"part {n}", 2) for n in range(9)}})
    estimated = estimate(running, folder)["by_granularity"]
    tool = running.local_tool(folder)
    running.wait(tool)
    whole = sum(file["chunks"] for file in running.files(tool))
    before = running.get(f"{TOOLS}/{tool}")["index"]
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"granularity": "packed"}}), 202)
    eventually(lambda: running.get(f"{TOOLS}/{tool}")["updating"] is None, 60, running.logs)
    packed = sum(file["chunks"] for file in running.files(tool))
    assert running.get(f"{TOOLS}/{tool}")["index"]["index_id"] != before["index_id"]
    assert packed < whole * 0.7
    assert within(whole, estimated["definition"]["chunks"])
    assert within(packed, estimated["packed"]["chunks"])
    (hit, *_) = running.query(tool, "work42")
    assert "def work42(" in hit["chunk_text"]


def test_a_dry_run_of_a_node_and_of_a_vanished_folder(running: Service, root: Path) -> None:
    node = running.node("estimated", "markdown", sections("a node", 5))
    answer = running.post(TOOLS, {"project_id": PROJECT, "node_id": node, "dry_run": True}, 200)
    assert (answer["total_files"], answer["sampled_files"]) == (1, 1)
    assert answer["tokens"]["expected"] > 0
    source = {"kind": "local", "path": str(root / "no-such")}
    body = {"project_id": PROJECT, "source": source, "dry_run": True}
    assert running.post(TOOLS, body, 422)["code"] == "folder_gone"
