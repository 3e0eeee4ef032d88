"""What git knows of a folder beside .gitignore: linked worktrees, and patterns elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from worker.ignore import Rules
from worker.machine.paths import is_below
from worker.sources.local import LocalFolder
from worker.sources.local_git import NOTHING_ABOVE, GitReach, no_patterns, user_patterns
from worker.sources.local_walk import WalkedFolder, walk

#: What a person who needs no grant reaches.
ALONE = GitReach(lambda _: True, user_patterns)

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="install git")


def granted(place: Path) -> GitReach:
    return GitReach(lambda path: is_below(path, str(place)), no_patterns)


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-c", "core.quotePath=off")
    done = subprocess.run(("git", *who, *arguments), cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the user whose git runs, which is not below the folders."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    place.mkdir()
    return place


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    write(folder, {"a.md": "a", **files})
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def listed(
    folder: Path, rules: Rules | None = None, reach: GitReach = NOTHING_ABOVE
) -> tuple[set[str], dict[str, int]]:
    """The paths that are indexed, and what is counted as ignored. A walk by names and a part of a listing agree."""
    rules = rules or Rules()
    source = LocalFolder(str(folder), [folder], rules, git=reach)
    page = source.list(None)
    paths = {entry.path for entry in page.entries}
    names = WalkedFolder(source.real_path)
    walked = {key for key, _ in walk(source, rules, names)}
    assert {key.decode() for key in walked if not source.leaves_out(key)} == paths
    assert names.is_current()
    for path in paths:
        part = LocalFolder(str(folder), [folder], rules, git=reach)
        part.narrow([path.encode()])
        assert path in {entry.path for entry in part.list(None).entries}
    return paths, dict(page.ignored)


# --- linked worktrees


def of_agents(root: Path) -> set[str]:
    repository(root)
    for name in ("x", "y", "z"):
        git(root, "worktree", "add", "-q", f".claude/worktrees/{name}")
    return {"a.md"}


def beside_it(root: Path) -> set[str]:
    main = repository(root / "main")
    git(main, "worktree", "add", "-q", "../feature")
    return {"main/a.md"}


def by_relative_paths(root: Path) -> set[str]:
    repository(root)
    git(root, "worktree", "add", "-q", "w/x")
    (root / "w" / "x" / ".git").write_text("gitdir: ../../.git/worktrees/x\n")
    return {"a.md"}


def pruned(root: Path) -> set[str]:
    repository(root)
    git(root, "worktree", "add", "-q", "x")
    shutil.rmtree(root / ".git" / "worktrees" / "x")
    return {"a.md"}


def of_a_submodule(root: Path) -> set[str]:
    other = repository(root.parent / "other")
    repository(root)
    git(root, "submodule", "add", "-q", str(other), "sub")
    git(root / "sub", "worktree", "add", "-q", "../copy")
    return {"a.md", "sub/a.md", ".gitmodules"}


def in_a_worktree_that_is_the_source(root: Path) -> set[str]:
    main = repository(root.parent / "main")
    root.rmdir()
    git(main, "worktree", "add", "-q", str(root))
    git(root, "worktree", "add", "-q", "nested", "-b", "nested")
    return {"a.md"}


def two_of_a_pair(root: Path) -> set[str]:
    main = repository(root / "main")
    git(main, "worktree", "add", "-q", "../one")
    git(main, "worktree", "add", "-q", "../two")
    return {"main/a.md"}


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (of_agents, 3),
        (beside_it, 1),
        (by_relative_paths, 1),
        (pruned, 1),
        (of_a_submodule, 1),
        (in_a_worktree_that_is_the_source, 1),
        (two_of_a_pair, 2),
    ],
)
def test_a_linked_worktree_is_left_out_and_counted(root: Path, make: Callable[[Path], set[str]], count: int) -> None:
    expected = make(root)
    paths, ignored = listed(root)
    assert (paths, ignored.get("worktrees_directories")) == (expected, count)
    kept, ignored = listed(root, Rules(keep=["worktrees"]))
    assert len(kept) > len(paths)
    assert "worktrees_directories" not in ignored
    assert listed(root, Rules(exclude=["!*/"]))[0] >= kept


def a_folder_of_repositories(root: Path) -> set[str]:
    repository(root / "one")
    repository(root / "two")
    return {"one/a.md", "two/a.md"}


def a_nested_clone(root: Path) -> set[str]:
    repository(root)
    git(root, "clone", "-q", str(root), "nested")
    return {"a.md", "nested/a.md"}


def a_submodule(root: Path) -> set[str]:
    other = repository(root.parent / "other")
    repository(root)
    git(root, "submodule", "add", "-q", str(other), "sub")
    return {"a.md", "sub/a.md", ".gitmodules"}


def the_worktree_as_source(root: Path) -> set[str]:
    root.rmdir()
    git(repository(root.parent / "main"), "worktree", "add", "-q", str(root))
    return {"a.md"}


def of_a_repository_elsewhere(root: Path) -> set[str]:
    git(repository(root.parent / "main"), "worktree", "add", "-q", str(root / "w"))
    return {"w/a.md"}


def a_text_that_looks_like_one(root: Path) -> set[str]:
    write(root, {"x/.git": "gitdir: /nowhere/.git/worktrees/x", "x/a.md": "a", "y/.git": "worktrees/y", "y/a.md": "a"})
    write(root, {"z/.git": "gitdir: ../.git/worktrees/z", "z/a.md": "a", "e/.git": "", "e/a.md": "a"})
    write(root, {"p/.git/a": "", "p/a.md": "a", "l/a.md": "a"})
    (root / "l" / ".git").symlink_to("../z/.git")
    (root / "f").mkdir()
    write(root, {"f/a.md": "a"})
    os.mkfifo(root / "f" / ".git")
    return {f"{name}/a.md" for name in "xyzeplf"}


@pytest.mark.parametrize(
    "make",
    [
        a_folder_of_repositories,
        a_nested_clone,
        a_submodule,
        the_worktree_as_source,
        of_a_repository_elsewhere,
        a_text_that_looks_like_one,
    ],
)
def test_what_is_no_copy_of_the_folder_is_indexed(root: Path, make: Callable[[Path], set[str]]) -> None:
    expected = make(root)
    paths, ignored = listed(root)
    assert paths == expected
    assert "worktrees_directories" not in ignored


@pytest.mark.parametrize("name", [".bare", "project.git", ".git"])
def test_worktrees_of_a_bare_repository_are_all_there_is(root: Path, name: str) -> None:
    git(root, "clone", "-q", "--bare", str(repository(root.parent / "main")), name)
    if name != ".git":
        (root / ".git").write_text(f"gitdir: ./{name}\n")
    for worktree in ("one", "two"):
        git(root / name, "worktree", "add", "-q", str(root / worktree), "-b", worktree)
    assert {"one/a.md", "two/a.md"} <= listed(root)[0]


def test_a_pointer_leads_no_reader_out_of_the_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = repository(root.parent / "main")
    git(main, "worktree", "add", "-q", str(root / "w"))
    opened: list[str] = []

    def noted(open_: Callable[..., object]) -> Callable[..., object]:
        def note(path: object, *arguments: object, **named: object) -> object:
            opened.append(os.fsdecode(path) if isinstance(path, str | bytes) else "")
            return open_(path, *arguments, **named)

        return note

    monkeypatch.setattr(os, "open", noted(os.open))
    monkeypatch.setattr(os, "stat", noted(os.stat))
    source = LocalFolder(str(root), [root], Rules())
    assert {entry.path for entry in source.list(None).entries} == {"w/a.md"}
    assert not any("main" in path for path in opened)


# --- patterns elsewhere


def indexed(folder: Path, reach: GitReach = ALONE, rules: Rules | None = None) -> set[str]:
    return {path for path in listed(folder, rules, reach)[0] if not path.endswith(".gitignore")}


def not_ignored_by_git(folder: Path) -> set[str]:
    """What git would add of a folder, in which nothing has been added yet."""
    found = git(folder, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return {name for name in found if name and not name.endswith((".gitignore", "/"))}


FILES = {
    "a.md": "",
    "a.log": "",
    "sub/a.md": "",
    "sub/a.log": "",
    "sub/deep/b.md": "",
    "out/c.md": "",
    "sub/out/c.md": "",
}


@pytest.mark.parametrize("source", ["", "sub", "sub/deep", "out"])
@pytest.mark.parametrize(
    "files",
    [
        {".git/info/exclude": "*.log\n"},
        {".git/info/exclude": "/out/\n"},
        {".git/info/exclude": "*.md\n", ".gitignore": "!a.md\n"},
        {".git/info/exclude": "!a.log\n", ".gitignore": "*.log\n"},
        {".gitignore": "*.log\n/sub/out/\n"},
        {".gitignore": "sub/deep/*.md\n", "sub/.gitignore": "!b.md\n"},
        {".gitignore": "*.md\n", "sub/.gitignore": "!/a.md\n"},
        {"../home/.config/git/ignore": "*.log\n"},
        {"../home/.config/git/ignore": "*.md\n", ".git/info/exclude": "!b.md\n"},
        {"../home/.gitconfig": "[core]\n\texcludesFile = ~/.mine\n", "../home/.mine": "*.log\n"},
        {
            "../home/.gitconfig": "[user]\n\tname = a\n\texcludesFile = ~/.other\n[Core]\n",
            "../home/.config/git/ignore": "a.*\n",
        },
        {"../home/.gitconfig": '[core] EXCLUDESFILE = "~/.mine" ; mine\n', "../home/.mine": "/out\n"},
        {
            "../home/.config/git/config": "[core]\nexcludesfile=~/.first\n",
            "../home/.gitconfig": "[core]\nexcludesfile=~/.mine # this one\n",
            "../home/.first": "*.log\n",
            "../home/.mine": "out\n",
        },
    ],
)
def test_a_folder_is_listed_as_git_does(root: Path, source: str, files: Mapping[str, str]) -> None:
    repository_of_nothing(root)
    write(root, FILES)
    write(root, files)
    folder = root / source
    # git leaves out the whole of an ignored folder, and a folder that is named is always indexed
    expected = not_ignored_by_git(folder)
    assert indexed(folder) == expected or (source and not expected)
    unruled = indexed(folder, rules=Rules(use_ignore_files=False))
    assert unruled == {str(path.relative_to(folder)) for path in folder.rglob("*") if is_content(path, root)}


def repository_of_nothing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    return folder


def is_content(path: Path, root: Path) -> bool:
    return path.is_file() and path.name != ".gitignore" and ".git" not in path.relative_to(root).parts


def test_each_repository_in_a_folder_has_its_own_excludes(root: Path) -> None:
    for name in ("one", "two"):
        write(repository_of_nothing(root / name), FILES)
    write(root, FILES)
    write(root / "one", {".git/info/exclude": "*.log\n"})
    assert {path for path in indexed(root) if path.endswith(".log")} == {
        *("a.log", "sub/a.log", "two/a.log", "two/sub/a.log")
    }


def test_nothing_outside_of_a_grant_is_read(root: Path, home: Path) -> None:
    write(repository_of_nothing(root), FILES)
    write(home, {".config/git/ignore": "a.md\n"})
    write(root, {".gitignore": "*.log\n", ".git/info/exclude": "b.md\n"})
    # the root of the repository is not granted, or is; the user's own patterns never are
    assert indexed(root / "sub", granted(root / "sub")) == {"a.md", "a.log", "deep/b.md", "out/c.md"}
    assert indexed(root / "sub", granted(root)) == {"a.md", "out/c.md"}
    assert indexed(root / "sub", ALONE) == {"out/c.md"}


def test_a_repository_names_no_file_to_read(root: Path, tmp_path: Path) -> None:
    write(repository_of_nothing(root), FILES)
    write(tmp_path, {"elsewhere": "*\n", "git/info/exclude": "*\n"})
    git(root, "config", "core.excludesFile", str(tmp_path / "elsewhere"))
    assert indexed(root) == set(FILES)
    shutil.rmtree(root / ".git")
    (root / ".git").write_text(f"gitdir: {tmp_path / 'git'}\n")
    assert indexed(root) == set(FILES)
    (root / ".git").unlink()
    (root / ".git").symlink_to(tmp_path / "git")
    assert indexed(root) == set(FILES)
    (root / ".git").unlink()
    (root / ".git" / "info").mkdir(parents=True)
    (root / ".git" / "info" / "exclude").symlink_to(tmp_path / "elsewhere")
    assert indexed(root) == set(FILES)


def test_without_a_repository_nothing_above_or_of_the_user_applies(root: Path, home: Path) -> None:
    write(root, {**FILES, ".gitignore": "a.md\n"})
    write(home, {".config/git/ignore": "*.log\n"})
    assert indexed(root / "sub") == {"a.md", "a.log", "deep/b.md", "out/c.md"}


def test_a_repository_above_all_its_folders_is_the_nearest_one(root: Path) -> None:
    write(repository_of_nothing(root), {**FILES, ".gitignore": "*.md\n"})
    repository_of_nothing(root / "sub")
    assert indexed(root / "sub" / "deep") == {"b.md"}
