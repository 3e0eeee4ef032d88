"""A reindex of some paths takes up what changed at and below them, and nothing else. A model says what is known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from tests.service import TOOLS, Service, eventually

TURNS = 8


def _disk(folder: Path) -> dict[str, int]:
    """Sizes of the files that the rules do not exclude."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix == ".md"]
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


def _known(running: Service, tool: str) -> dict[str, int]:
    files = [file for file in running.files(tool) if file["status"] != "removed"]
    assert all(file["file_name"] == Path(file["file_path"]).name for file in files)
    return {file["file_path"]: file["size"] for file in files}


def _at(path: str, asked: list[str]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in asked)


def _edit(folder: Path, rng: Random, turn: int) -> None:
    for number in range(4):
        directory = folder / rng.choice(["a", "b", "b/c"])
        path = directory / f"{rng.randrange(6)}.md"
        if rng.random() < 0.15:
            shutil.rmtree(directory, ignore_errors=True)
        elif rng.random() < 0.3:
            path.unlink(missing_ok=True)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            path.write_text("word " * (turn * 10 + number + 1))
            path.with_suffix(".tmp").write_text("left out by the config")


def _reindex(running: Service, tool: str, **body: object) -> None:
    running.post(f"{TOOLS}/{tool}/reindex", body)
    running.wait(tool)


def test_what_is_known_follows_the_paths_that_were_asked_for(running: Service, root: Path) -> None:
    rng, folder = Random(20261123), root / "asked"
    folder.mkdir()
    _edit(folder, rng, 0)
    (folder / "kept.md").write_text("a file that stays")
    tool = running.local_tool(folder, config={"include": ["*.md"]})
    running.wait(tool)
    known = _disk(folder)
    assert _known(running, tool) == known
    for turn in range(1, TURNS):
        _edit(folder, rng, turn)
        asked = rng.sample(["a", "b", "b/c", "a/1.md", "b/2.md", "b/c/3.md", "nowhere/4.md", "a/5.tmp"], 3)
        _reindex(running, tool, paths=asked)
        now = _disk(folder)
        known = {path: size for path, size in known.items() if not _at(path, asked)}
        known |= {path: size for path, size in now.items() if _at(path, asked)}
        assert _known(running, tool) == known, (turn, asked)
    _reindex(running, tool)
    assert _known(running, tool) == _disk(folder)


def test_paths_of_several_requests_are_taken_up_by_one_run(running: Service, root: Path) -> None:
    folder = root / "several"
    folder.mkdir()
    tool = running.local_tool(folder)
    running.wait(tool)
    for name in ("a.md", "b.md", "c.md", "d.md"):
        (folder / name).write_text(f"About {name}.")
    for name in ("a.md", "b.md", "c.md"):
        running.post(f"{TOOLS}/{tool}/reindex", {"paths": [name]})
    eventually(lambda: _known(running, tool).keys() == {"a.md", "b.md", "c.md"}, 30, running.logs)
    running.wait(tool)
    assert "d.md" not in _known(running, tool)


@pytest.mark.parametrize("path", ["", "/", "/etc", "../other", "a/../b", "a//b", ".", "a\0b", "\ud800"])
def test_what_is_no_path_in_the_folder_is_refused(running: Service, root: Path, path: str) -> None:
    folder = root / "refusing"
    folder.mkdir(exist_ok=True)
    tool = running.local_tool(folder)
    body = json.dumps({"paths": [path]})
    headers = {"Content-Type": "application/json"}
    assert running.client.post(f"{TOOLS}/{tool}/reindex", content=body, headers=headers).status_code == 422
    assert running.client.post(f"{TOOLS}/{tool}/reindex", json={"paths": []}).status_code == 422


@pytest.mark.parametrize(("number", "status"), [(100, 202), (101, 422)])
def test_so_many_paths_are_taken(running: Service, root: Path, number: int, status: int) -> None:
    folder = root / "many"
    folder.mkdir(exist_ok=True)
    tool = running.local_tool(folder)
    running.post(f"{TOOLS}/{tool}/reindex", {"paths": [f"{each}.md" for each in range(number)]}, status)
