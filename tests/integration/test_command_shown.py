"""What `foldex files` says of nothing, and what `foldex search --open` opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.commanding import foldex
from tests.service import Service


@pytest.fixture(scope="module")
def folder(root: Path, running: Service) -> Path:
    """An indexed folder with the tool `shown`."""
    folder = root / "shown"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "tokens.py").write_text("def make_token(user):\n    return sign(user)\n")
    (folder / "broken.pdf").write_text("%PDF-1.7")
    assert foldex(running, "index", str(folder)).returncode == 0
    return folder


@pytest.mark.parametrize(
    ("arguments", "which"),
    [
        (("shown/src", "--failed"), " below src that failed"),
        (("shown", "--skipped"), " that was skipped"),
        (("shown", "--status", "pending", "-q", "x"), " that is pending with 'x' in its path"),
        (("shown", "-q", "nowhere"), " with 'nowhere' in its path"),
    ],
)
def test_a_list_without_files_says_so(running: Service, folder: Path, arguments: tuple[str, ...], which: str) -> None:
    done = foldex(running, "files", *arguments, cwd=folder.parent)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"shown has no file{which}.\n")
    assert foldex(running, "files", "shown", "--failed").stderr == ""


def test_the_first_hit_is_opened(running: Service, folder: Path, tmp_path: Path) -> None:
    editor = tmp_path / "vi"
    editor.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/opened\n')
    editor.chmod(0o700)
    for env in ({"EDITOR": str(editor)}, {"VISUAL": f"{editor} -R", "EDITOR": "/nowhere"}):
        done = foldex(running, "search", "make_token", "--open", cwd=folder, env={"VISUAL": "", **env})
        assert done.returncode == 0, done.stderr
        option = "-R " if "VISUAL" in env else ""
        assert (tmp_path / "opened").read_text() == f"{option}+1 {folder}/src/tokens.py\n"
    lacking = foldex(running, "search", "make_token", "--open", cwd=folder, env={"VISUAL": "/nowhere"})
    assert (lacking.returncode, "EDITOR" in lacking.stderr) == (2, True)


def test_a_warning_is_told_once(running: Service, folder: Path) -> None:
    rules = 'rules=[{"path": "nowhere/**", "acl": ["user:ann"]}]'
    done = foldex(running, "index", str(folder), "--name", "ruled", "--config", rules)
    said = done.stdout + done.stderr
    assert (done.returncode, said.count("No listed file matches")) == (0, 1), said


def test_an_outline_is_of_a_file_or_of_all_below_a_folder(running: Service, folder: Path) -> None:
    for path in ("src/tokens.py", "src", "."):
        done = foldex(running, "outline", path, cwd=folder)
        assert (done.returncode, done.stdout) == (0, "src/tokens.py:1: def make_token(user)\n"), done.stderr
    nothing = foldex(running, "outline", "broken.pdf", cwd=folder)
    assert (nothing.returncode, nothing.stdout) == (1, ""), nothing.stderr


def test_a_match_may_span_lines(running: Service, folder: Path) -> None:
    done = foldex(running, "grep", "-U", r"user\):\s+return", cwd=folder)
    first, second = (folder / "src" / "tokens.py").read_text().splitlines()[:2]
    assert (done.returncode, done.stdout) == (0, f"src/tokens.py:1:{first}\nsrc/tokens.py:2:{second}\n")
