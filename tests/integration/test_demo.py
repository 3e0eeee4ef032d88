"""`make demo` over a folder of twenty mixed files: it reports each, with a remedy if the file is not indexed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.reason import Reason
from tests.service import environment
from worker.machine.named_folders import named_folders, named_folders_file

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "data"
#: Samples that any machine can read, one of each type.
READ = (
    "csv/passengers.csv", "docx/handbook.docx", "email/delay.eml", "epub/tales.epub", "html/crossing.html",
    "json/ferry.json", "jsonl/log.jsonl", "markdown/crossing.md", "notebook/tides.ipynb", "odt/garden.odt",
    "pdf/tides.pdf", "pptx/lighthouse.pptx", "rtf/crew.rtf", "toml/ferry.toml", "xlsx/catches.xlsx", "yaml/ferry.yaml",
)  # fmt: skip # a line each says nothing
BAD = {
    "empty.txt": (b"", Reason.EMPTY),
    "blank.txt": (b" \n\t\n", Reason.NO_TEXT),
    "broken.pdf": (b"%PDF-1.7", Reason.PARSE_FAILED),
    "film.mp4": (b"\0\0\0\x18ftypmp42", Reason.UNSUPPORTED_TYPE),
}


def mixed(folder: Path) -> Path:
    """Write twenty files, sixteen of which have text, and files that rules leave out."""
    folder.mkdir()
    for name in READ:
        shutil.copy(SAMPLES / name, folder)
    for name, (data, _) in BAD.items():
        (folder / name).write_bytes(data)
    (folder / "node_modules" / "left").mkdir(parents=True)
    (folder / "node_modules" / "left" / "out.js").write_text("let apart = 1\n")
    return folder


def demo(home: Path, *arguments: str, **env: str) -> tuple[int, str]:
    """The exit status and the output."""
    # the stack finds its own servers and free ports
    given = {name: value for name, value in environment(home, "", "").items() if value}
    ended = subprocess.run(
        [sys.executable, "-m", "api", "demo", *arguments],
        env={**os.environ, **given, "COLUMNS": "200", **env},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.timeout(300)
def test_twenty_mixed_files_are_all_told_of(tmp_path: Path) -> None:
    folder = mixed(tmp_path / "mixed")
    code, printed = demo(tmp_path / "home", f"--folder={folder}", "--query=ferry timetable")
    assert code == 0, printed
    said = " ".join(printed.split())
    assert f"{len(READ)} files indexed" in said, printed
    for name in READ:
        type_, file = name.split("/")
        assert re.search(rf"1 {type_} in \d+ chunks? {re.escape(file)}", said), (name, printed)
    for name, (_, reason) in BAD.items():
        assert f"1 {reason.status}: {reason} {name}" in said, (name, printed)
    assert Reason.EMPTY.remedy in said
    assert "excluded by rules: 1 directory (dependencies)" in said
    assert "node_modules" not in said
    # no terminal draws a bar, so lines tell what is being done
    assert f"indexing {folder} …" in said
    # the query is answered from one of them
    assert re.search(r"ferry timetable \d+ ms \S+:\d+: \d\.\d\d", said), printed
    # later starts may read the folder too
    assert named_folders(named_folders_file(tmp_path / "home")) == [folder]


def test_an_empty_folder_below_the_home_is_asked_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, printed = demo(tmp_path / "home", "--folder=~/empty", HOME=str(tmp_path))
    assert code == 0, printed
    assert "No file was indexed, so there is nothing to ask" in " ".join(printed.split())
    assert "overview" not in printed


def test_a_folder_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    code, printed = demo(tmp_path / "home", f"--folder={tmp_path / 'gone'}")
    assert (code, printed) == (2, f"Error: {tmp_path / 'gone'} does not exist; name an existing folder.\n")
