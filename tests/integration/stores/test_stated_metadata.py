"""Metadata that files and their sidecars state: it follows every edit, and embeds nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stores.ground import LONG_AGO, Ground
from tests.service import TOOLS, checked

DECLARED = {"team": "string", "year": "int", "due": "time", "tags": "strings", "acl": "strings", "zip": "string"}


@pytest.fixture
def folder(ground: Ground, request: pytest.FixtureRequest) -> Path:
    path = ground.root / str(request.node.originalname)
    path.mkdir(exist_ok=True)
    return path


def made(ground: Ground, folder: Path, *sources: str) -> str:
    tool = ground.service.local_tool(folder, config={"metadata": DECLARED, "metadata_from": list(sources)})
    assert ground.service.wait(tool)["failed_files"] == 0
    return tool


def passing(ground: Ground, tool: str, **conditions: Any) -> list[str]:
    body = {"query": "word", "filters": {"metadata": conditions}}
    answer = ground.service.client.post(f"{TOOLS}/{tool}/query", json=body)
    return sorted(hit["file_path"] for hit in answer.json().get("results", ()))


def reindexed(ground: Ground, tool: str, **body: Any) -> dict[str, Any]:
    ground.service.post(f"{TOOLS}/{tool}/reindex", body)
    status = ground.service.wait(tool)
    assert status["embedded_chunks"] == 0
    return status


def claims(ground: Ground, tool: str) -> dict[str, int]:
    """How often each file was claimed, as numbers that grow."""
    with ground.resources.pool.connection() as connection:
        query = "SELECT path, generation FROM search_index_file WHERE index_id = %s"
        return dict(connection.execute(query, [ground.index(tool).id]).fetchall())


def test_front_matter_and_the_head_of_pages_give_metadata(ground: Ground, folder: Path) -> None:
    text = "---\nteam: red\nyear: 2024\ndue: 2026-03-01\nzip: 01234\nother: x\ntags:\n  - a\n  - b\n---\n\nA word.\n"
    (folder / "note.md").write_text(text)
    page = "<head><meta name=Team content=red><meta name=year content=2020><meta name=tags content=a>"
    page += "<meta name=viewport content=wide><meta name=acl content='*'></head>"
    (folder / "page.html").write_text(f"<html>{page}<body>A word of the page</body></html>")
    tool = made(ground, folder, "front_matter")
    assert passing(ground, tool, team="red") == ["note.md", "page.html"]
    assert passing(ground, tool, year={"gte": 2021}) == passing(ground, tool, due="2026-03-01T00:00:00Z") == ["note.md"]
    assert passing(ground, tool, tags={"all": ["a", "b"]}) == ["note.md"]
    (hit,) = ground.service.query(tool, "word", filters={"metadata": {"year": 2020}})
    assert hit["metadata"] == {"team": "red", "year": 2020}
    (hit,) = ground.service.query(tool, "word", filters={"metadata": {"zip": "01234"}})
    due = "2026-03-01T00:00:00Z"
    assert hit["metadata"] == {"team": "red", "year": 2024, "due": due, "zip": "01234", "tags": ["a", "b"]}
    # the declaration decides, without a run
    task = ground.service.status(tool)["task_id"]
    for sources, found in (([], []), (["properties"], []), (["front_matter"], ["note.md", "page.html"])):
        patch = {"config": {"metadata_from": sources}}
        checked(ground.service.client.patch(f"{TOOLS}/{tool}", json=patch), 202)
        assert passing(ground, tool, team="red") == found
    assert ground.service.status(tool)["task_id"] == task
    (folder / "note.md").write_text(text.replace("red", "blue"))
    ground.service.post(f"{TOOLS}/{tool}/reindex", {})
    ground.service.wait(tool)
    assert (passing(ground, tool, team="red"), passing(ground, tool, team="blue")) == (["page.html"], ["note.md"])
    # read again with the same content, and moved
    os.utime(folder / "note.md", (LONG_AGO, LONG_AGO))
    reindexed(ground, tool)
    assert passing(ground, tool, team="blue") == ["note.md"]
    (folder / "note.md").rename(folder / "moved.md")
    reindexed(ground, tool)
    assert passing(ground, tool, team="blue") == ["moved.md"]


def test_a_sidecar_changes_its_file_without_reading_it_again(ground: Ground, folder: Path) -> None:
    (folder / "deep").mkdir()
    for path in ("a.md", "deep/a.md", "b.txt"):
        (folder / path).write_text(f"---\nteam: own\n---\n\nA word of {path}.\n")
        # stamps of young files are not trusted
        os.utime(folder / path, (LONG_AGO, LONG_AGO))
    sidecar = folder / "deep" / "a.md.meta.json"
    sidecar.write_text(json.dumps({"team": "red", "year": 2024, "acl": ["*"], "deep": {"er": 1}, "none": None}))
    tool = made(ground, folder, "front_matter", "sidecars")
    assert passing(ground, tool, team="red") == passing(ground, tool, year=2024) == ["deep/a.md"]
    assert passing(ground, tool, team="own") == ["a.md"]
    assert passing(ground, tool, acl={"exists": True}) == []
    (listed,) = ground.service.files(tool, status="skipped")
    assert (listed["file_path"], listed["reason"]) == ("deep/a.md.meta.json", "sidecar")
    assert "'acl', 'deep'." in listed["message"]
    assert "never decides who may read" in listed["message"]
    assert ground.service.query(tool, "2024 red") != []
    assert not any("meta.json" in hit["file_path"] for hit in ground.service.query(tool, "2024 red year", top_k=100))

    before = claims(ground, tool)
    sidecar.write_text(json.dumps({"team": "blue"}))
    reindexed(ground, tool)
    assert passing(ground, tool, team="red") == passing(ground, tool, year=2024) == []
    assert passing(ground, tool, team="blue") == ["deep/a.md"]
    after = claims(ground, tool)
    assert {path for path, claim in after.items() if claim != before[path]} == {"deep/a.md.meta.json"}

    # one that is damaged keeps what it said, and counts
    sidecar.write_text("{")
    assert reindexed(ground, tool)["failed_files"] == 1
    assert passing(ground, tool, team="blue") == ["deep/a.md"]
    sidecar.rename(folder / "a.md.meta.json")
    (folder / "a.md.meta.json").write_text('{"team": "blue"}')
    reindexed(ground, tool)
    assert (passing(ground, tool, team="blue"), passing(ground, tool, team="own")) == (["a.md"], ["deep/a.md"])
    (folder / "a.md.meta.json").unlink()
    reindexed(ground, tool)
    assert passing(ground, tool, team="own") == ["a.md", "deep/a.md"]


def test_sidecars_are_files_as_others_unless_a_tool_takes_metadata_from_them(ground: Ground, folder: Path) -> None:
    (folder / "a.md").write_text("A word.")
    (folder / "a.md.meta.json").write_text('{"team": "red", "zanzibar": "word"}')
    (folder / ".meta.json").write_text('{"alone": "word"}')
    plain = made(ground, folder)
    ground.provider.reset()
    with_sidecars = made(ground, folder, "sidecars")
    assert {hit["file_path"] for hit in ground.service.query(plain, "word")} == {
        "a.md", "a.md.meta.json", ".meta.json"
    }  # fmt: skip
    assert {hit["file_path"] for hit in ground.service.query(with_sidecars, "word")} == {"a.md", ".meta.json"}
    assert passing(ground, with_sidecars, team="red") == ["a.md"]
    # of other types than the tool indexes, they count all the same
    config = {"metadata": DECLARED, "metadata_from": ["sidecars"], "types": ["markdown"]}
    typed = ground.service.local_tool(folder, config=config)
    ground.service.wait(typed)
    assert passing(ground, typed, team="red") == ["a.md"]


def test_a_sidecar_is_for_the_file_in_its_own_folder_alone(ground: Ground) -> None:
    service = ground.service
    top = service.node("twins", "folder")
    one, two = service.node("docs", "folder", parent_id=top), service.node("docs", "folder", parent_id=top)
    for folder_id in (one, two):
        service.node("a.md", "markdown", "A word.", parent_id=folder_id)
    service.node("a.md.meta.json", "json", {"team": "red"}, parent_id=one)
    tool = service.tool(node_id=top, config={"metadata": DECLARED, "metadata_from": ["sidecars"]})
    service.wait(tool)
    assert passing(ground, tool, team="red") == ["docs/a.md"]
    service.node("a.md.meta.json", "json", {"team": "blue"}, parent_id=two)
    reindexed(ground, tool)
    assert passing(ground, tool, team="red") == passing(ground, tool, team="blue") == ["docs/a.md"]


def test_held_removals_hold_sidecars_too(ground: Ground, folder: Path) -> None:
    for number in range(30):
        (folder / f"{number}.md").write_text(f"A word of {number}.")
        (folder / f"{number}.md.meta.json").write_text('{"team": "red"}')
    tool = made(ground, folder, "sidecars")
    for path in folder.iterdir():
        path.unlink()
    status = reindexed(ground, tool)
    assert (status["held_removals"], status["removed_files"]) == (60, 0)
    assert len(ground.service.files(tool, metadata='{"team": "red"}')) == 30
    assert reindexed(ground, tool, allow_removals=True)["removed_files"] == 60


def test_a_renamed_file_becomes_a_sidecar_and_back(ground: Ground) -> None:
    service = ground.service
    top = service.node("renamed", "folder")
    service.node("a.md", "markdown", "A word.", parent_id=top)
    notes = service.node("notes.json", "json", {"team": "red", "told": "a word"}, parent_id=top)
    tool = service.tool(node_id=top, config={"metadata": DECLARED, "metadata_from": ["sidecars"]})
    service.wait(tool)

    def found() -> tuple[list[str], set[str]]:
        return passing(ground, tool, team="red"), {hit["file_path"] for hit in service.query(tool, "word")}

    def rename(name: str) -> None:
        checked(service.client.patch(f"/api/projects/project-1/nodes/{notes}", json={"name": name}), 200)
        service.post(f"{TOOLS}/{tool}/reindex", {})
        service.wait(tool)

    assert found() == ([], {"a.md", "notes.json"})
    rename("a.md.meta.json")
    assert found() == (["a.md"], {"a.md"})
    rename("notes.json")
    assert found() == ([], {"a.md", "notes.json"})


def test_a_file_without_text_keeps_nothing_of_its_old_text(ground: Ground, folder: Path) -> None:
    (folder / "a.md").write_text("---\nteam: red\n---\n\nA word.\n")
    (folder / "b.html").write_text("<html><title>Tides</title><body>A word</body></html>")
    tool = made(ground, folder, "front_matter", "properties")
    red = '{"team": "red"}'
    assert [file["file_path"] for file in ground.service.files(tool, metadata=red)] == ["a.md"]
    for name in ("a.md", "b.html"):
        (folder / name).write_bytes(b"")
    reindexed(ground, tool)
    assert ground.service.files(tool, metadata=red) == []
    assert {file["status"] for file in ground.service.files(tool)} == {"skipped"}
    kept = "SELECT stated, properties FROM search_index_file WHERE index_id = %s"
    assert not any(value for row in ground.service.rows(kept, ground.index(tool).id) for value in row)
