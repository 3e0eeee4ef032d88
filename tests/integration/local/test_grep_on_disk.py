"""Grep over files on disk: other encodings, odd names, a link, a file that changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from api.search.grep import grep as search
from schemas.queries.grep import Grep
from tests.integration.local.grepping import grep, index_of, places
from tests.service import TOOLS, Service
from worker.resources import Resources


@pytest.fixture(scope="module")
def odd(running: Service, root: Path) -> tuple[str, Path]:
    """A folder with names and texts that are not UTF-8, and a link that leads out of it."""
    folder = root / "odd"
    folder.mkdir()
    (folder / "a.txt").write_bytes("Müller wohnt dort, wo früher Bäume standen\n".encode("latin-1"))
    (folder / os.fsdecode(b"dir\xff")).mkdir()
    (folder / os.fsdecode(b"dir\xff") / "b.txt").write_text("a plain word\n")
    (folder / os.fsdecode(b"out\xff.log")).write_text("a plain word\n")
    (folder / ".foldexignore").write_text("*.log\n")
    (folder / "link").symlink_to("/etc")
    tool = running.local_tool(folder)
    running.wait(tool)
    return tool, folder


@pytest.mark.parametrize(
    ("pattern", "regex"),
    [
        *(("Müller", False), ("MÜLLER", False), ("M.ller", True), (r"Müller|x", True), ("wohnt", False)),
        *((r"M\wller\s?", True), (r"M[\w-]ller", True), (r"M\Dl\S+", True)),
    ],
)
def test_other_encodings_are_found_on_disk(running: Service, odd: tuple[str, Path], pattern: str, regex: bool) -> None:
    answer = grep(running, odd[0], pattern, regex=regex)
    assert grep(running, odd[0], pattern, regex=regex, word=True, multiline=True)["hits"] == answer["hits"]
    assert [(hit["file_path"], hit["preview"][:12]) for hit in answer["hits"]] == [("a.txt", "Müller wohnt")]
    assert answer["notes"] == []


def test_a_shown_name_that_is_not_utf8_is_a_path(running: Service, odd: tuple[str, Path]) -> None:
    asked = [("plain", "dir\\xff"), ("plain", "dir\\xff/b.txt")]
    for pattern, path in asked:
        assert places(grep(running, odd[0], pattern, path=path)) == [("dir\\xff/b.txt", 1, 3)]


@pytest.mark.parametrize("path", ["link/passwd", "link", "link/none", "out\\xff.log"])
def test_nothing_is_told_of_what_is_not_in_the_folder(running: Service, odd: tuple[str, Path], path: str) -> None:
    answer = running.client.post(f"{TOOLS}/{odd[0]}/grep", json={"pattern": "root", "path": path})
    assert (answer.status_code, answer.json()["code"]) == (422, "no_such_files")


def test_a_file_that_shrinks_is_found_again(resources: Resources, odd: tuple[str, Path]) -> None:
    index, file = index_of(resources, odd[0]), odd[1] / "large.txt"
    file.write_bytes(b"x" * (index.settings.max_file_bytes + 1))
    for path in (odd[1], odd[1] / ".foldexignore", odd[1] / os.fsdecode(b"dir\xff")):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    try:
        assert search.grep(resources, index, Grep(pattern="shrunk")).hits == []
        file.write_text("shrunk")
        assert [hit.file_path for hit in search.grep(resources, index, Grep(pattern="shrunk")).hits] == ["large.txt"]
    finally:
        file.unlink()
