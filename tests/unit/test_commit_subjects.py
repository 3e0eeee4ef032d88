"""Commit subjects of at most 72 characters pass, in whole and in shallow clones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from api.stack.processes import which
from tests.commit_subjects import MAX_CHARS, long_subjects, main

pytestmark = pytest.mark.skipif(which("git") is None, reason="install git to run")
ROOT = Path(__file__).parents[2]
#: Letters of two bytes each: characters count, not bytes.
LONGEST, TOO_LONG = "é" * MAX_CHARS, "é" * (MAX_CHARS + 1)


def git(repository: Path, *arguments: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", *author, "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(repository: Path, subject: str) -> str:
    git(repository, "commit", "--quiet", "--allow-empty", "--message", f"{subject}\n\n{'body ' * 40}")
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    made.mkdir()
    git(made, "init", "--quiet", "--initial-branch=main")
    return made


def test_a_subject_may_have_72_characters_and_no_more(repository: Path) -> None:
    since = commit(repository, TOO_LONG)
    commit(repository, LONGEST)
    assert long_subjects(repository, since) == []
    bad = commit(repository, TOO_LONG)
    commit(repository, "Another")
    (found,) = long_subjects(repository, since)
    short, _, subject = found.partition(" ")
    assert (bad.startswith(short), subject) == (True, TOO_LONG)
    assert TOO_LONG in (main(repository) or "")


def test_merges_are_named_by_programs(repository: Path) -> None:
    since = commit(repository, "First")
    git(repository, "switch", "--quiet", "--create", "beside")
    commit(repository, "Beside")
    git(repository, "switch", "--quiet", "main")
    commit(repository, "Second")
    git(repository, "merge", "--quiet", "--no-ff", "--message", TOO_LONG, "beside")
    assert long_subjects(repository, since) == []


def test_a_shallow_clone_is_checked_as_far_as_it_goes(repository: Path, tmp_path: Path) -> None:
    since = commit(repository, TOO_LONG)
    commit(repository, TOO_LONG)
    commit(repository, "Last")
    for depth, bad in ((1, 0), (2, 1), (3, 1)):
        clone = tmp_path / f"{depth}"
        git(tmp_path, "clone", "--quiet", "--depth", f"{depth}", repository.as_uri(), str(clone))
        assert len(long_subjects(clone, since)) == bad, depth


def test_a_copy_without_history_passes(tmp_path: Path) -> None:
    assert main(tmp_path) is None


def test_the_check_is_part_of_the_gate() -> None:
    (recipe,) = (ROOT / "Makefile").read_text().partition("\ncheck: ")[2].split("\n\n")[:1]
    assert "\t$(PYTHON) -m tests.commit_subjects" in recipe
