"""Git ignores the same files."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.worker.ignore.judging import BARE, judge

NAMES = ["a", "b", "ab", "a.md", "b.md", "ba", "A b", "!x", "#y", "é", "aé", "日b", os.fsdecode(b"a\xe9")]
# no "a**" before a slash: some releases of git read it as "**"
WORDS = ["a", "b", "*", "**", "a*", "*b", "*.md", "?", "[ab]", "[!a]", "a?", "*a*b*", "\\!x", "[[:alpha:]]", "A b"]
WORDS += ["b.md", " ", "a.m[a-d]", "\\#y", "***"]
# git's wildcards and classes match bytes, not letters
WORDS += [
    "é",
    "??",
    "???",
    "a??",
    "[é][é]",
    "[à-ÿ]?",
    "[^a]?",
    "[日]*",
    "\\é",
    os.fsdecode(b"[\xc3\xe9]*"),
    "?[!\x80-ÿ]",
]


def pattern(chance: random.Random) -> str:
    words = "/".join(chance.choice(WORDS) for _ in range(chance.choice([1, 1, 1, 2, 2, 3])))
    ends = (chance.choice(["", "", "!"]), chance.choice(["", "", "/"]), chance.choice(["", "", "/"]))
    return f"{ends[0]}{ends[1]}{words}{ends[2]}{chance.choice(['', '', ' ', '  ', chr(92) + ' '])}"


def made_up(root: Path, chance: random.Random) -> None:
    """Some files in some directories, and ignore files in a few of them."""
    for _ in range(25):
        path = root.joinpath(*(chance.choice(NAMES) for _ in range(chance.choice([1, 2, 3, 4]))))
        if not any(parent.is_file() for parent in (path, *path.parents)) and not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    folders = sorted(path for path in root.rglob("*") if path.is_dir() and ".git" not in path.parts)
    for folder in [root, *chance.sample(folders, min(len(folders), 3))]:
        lines = [pattern(chance) for _ in range(chance.randint(1, 4))]
        (folder / ".gitignore").write_bytes(os.fsencode("\n".join(lines) + "\n"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("install git to run")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def ignored_by_git(repository: Path, paths: Iterable[str]) -> set[str]:
    command = ["git", "-c", "core.matchesFile=", "check-ignore", "--no-index", "-z", "--stdin"]
    asked = os.fsencode("\0".join(paths))
    answer = subprocess.run(command, cwd=repository, input=asked, capture_output=True, check=False)
    return {path for path in os.fsdecode(answer.stdout).split("\0") if path}


@pytest.mark.parametrize("seed", range(25))
def test_git_ignores_the_same_files(repository: Path, seed: int) -> None:
    made_up(repository, random.Random(seed))
    files = [path for path in sorted(repository.rglob("*")) if path.is_file() and ".git" not in path.parts]
    paths = [path.relative_to(repository).as_posix() for path in files]
    rules = {path.relative_to(repository).as_posix(): path.read_bytes() for path in repository.rglob(".gitignore")}
    assert {path for path in paths if judge(BARE, path, rules)} == ignored_by_git(repository, paths)


#: A colon at the start of a path is special to git, but not in a file.
LETTERS = [chr(code) for code in range(1, 127) if chr(code) not in "/.:"]
CLASSES = ["alpha", "digit", "alnum", "lower", "upper", "xdigit", "space", "blank", "punct", "cntrl", "graph", "print"]
BRACKETS = [
    *(f"[[:{name}:]]" for name in CLASSES),
    "[![:punct:]x]",
    "[\\[:alpha:]]",
    "[[:no:]]",
    "[[:",
    "[[::]]",
    "[[:alpha",
]
BRACKETS += [
    "[a\\-c]",
    "[\\]]",
    "[a\\]b]",
    "[!\\a]",
    "[\\a-c]",
    "[a-\\c]",
    "[\\\\]",
    "[]-a]",
    "[^]]",
    "[!]",
    "[^]",
    "[]",
]
BRACKETS += ["[z-a]", "[a--b]", "[--0]", "[a-c-e]", "[a-]", "[[:digit:]-z]", "[a-[:digit:]]", "[a-", "[\\"]
BRACKETS += ["a[b/c]", "[!/]", "[/]b", "a\\/b", "*[a\\-c]"]


@pytest.mark.parametrize("line", BRACKETS)
def test_brackets_hold_what_git_takes_them_for(repository: Path, line: str) -> None:
    paths = [*LETTERS, *(f"a{letter}" for letter in LETTERS), *(f"a/{letter}" for letter in LETTERS)]
    (repository / ".gitignore").write_text(line)
    assert {path for path in paths if judge(BARE, path, {".gitignore": line})} == ignored_by_git(repository, paths)
