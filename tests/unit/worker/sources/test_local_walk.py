"""Names of a folder's files: with the rules for files, exactly those of a listing; and any change is visible."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from worker.ignore import Rules
from worker.sources.local import TRUSTED_AGE_NS, LocalFolder
from worker.sources.local_walk import WalkedFolder, walk

#: Older than the age at which stamps are trusted.
LONG_AGO = 1_600_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.txt", "a/b.txt", "a/c.log", "a-b/d", "keep/e.log", "node_modules/f.js", "out/g", "z/y/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / ".gitignore").write_text("*.log\n/out/\n")
    (tmp_path / "keep" / ".foldexignore").write_text("!e.log\n")
    (tmp_path / "link").symlink_to(tmp_path / "z")
    (tmp_path / "a" / "link.txt").symlink_to(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "pipe")
    for path in [*tmp_path.rglob("*"), tmp_path]:
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    return tmp_path


def named(folder: Path, rules: Rules, *top: bytes) -> tuple[WalkedFolder, list[bytes]]:
    source = LocalFolder(str(folder), [folder])
    names = WalkedFolder(source.real_path)
    return names, [key for key, _ in walk(source, rules, names, top)]


@pytest.mark.parametrize(
    "rules",
    [Rules(), Rules(use_ignore_files=False), Rules(keep=["dependencies"]), Rules(["*.log"], ["a"]), Rules(["z"])],
)
def test_what_rules_leave_of_it_is_the_listing(folder: Path, rules: Rules) -> None:
    source = LocalFolder(str(folder), [folder], rules)
    listed = [entry.key for entry in source.list(None).entries if entry.reason is None]
    assert [key for key in named(folder, rules)[1] if not source.leaves_out(key)] == listed


def test_a_part_of_it(folder: Path) -> None:
    assert named(folder, Rules(), b"a")[1] == [b"a/b.txt", b"a/c.log"]
    assert named(folder, Rules(), b"z", b"y", b"x.txt")[1] == [b"z/y/x.txt"]
    for nothing in (
        [b"out"],
        [b"out", b"g"],
        [b"link"],
        [b"none"],
        [b"a", b"link.txt"],
        [b"a.txt", b"b"],
        [b"link", b"y"],
    ):
        assert named(folder, Rules(), *nothing)[1] == []


def test_what_vanishes_or_changes_during_a_walk_is_passed_over(folder: Path) -> None:
    source = LocalFolder(str(folder), [folder])
    files = walk(source, Rules(use_ignore_files=False), WalkedFolder(source.real_path))
    assert next(files)[0] == b".gitignore"
    (folder / "a.txt").unlink()
    (folder / "z" / "y" / "x.txt").unlink()
    (folder / "z" / "y").rmdir()
    (folder / "z").rmdir()
    (folder / "z").touch()
    assert [key for key, _ in files] == [
        b"a/b.txt",
        b"a/c.log",
        b"a-b/d",
        # its directory was read before
        b"a.txt",
        b"keep/.foldexignore",
        b"keep/e.log",
        b"out/g",
    ]


def test_the_root_of_a_machine_is_a_folder_too() -> None:
    names = WalkedFolder(LocalFolder("/", [Path("/")]).real_path)
    assert (names.path(()), names.path((b"usr", b"bin"))) == (b"/", b"/usr/bin")


def test_any_change_shows(folder: Path) -> None:
    names, _ = named(folder, Rules())
    assert names.is_settled
    assert names.is_current()
    (folder / "out" / "new").touch()
    assert names.is_current()
    (folder / ".gitignore").write_text("*.txt\n")
    assert not names.is_current()
    names, _ = named(folder, Rules())
    assert not names.is_settled
    (folder / "z" / "y" / "new").touch()
    assert not names.is_current()


@pytest.mark.parametrize(("age", "is_settled"), [(TRUSTED_AGE_NS, False), (TRUSTED_AGE_NS + 1, True)])
def test_what_changed_just_before_a_walk_may_change_unseen(age: int, is_settled: bool) -> None:
    began = time.time_ns()
    names = WalkedFolder(b"/x", stamps={b"/x": (began - age, 0, 0, 0), b"/x/gone": None}, began=began)
    assert names.is_settled is is_settled


@pytest.mark.parametrize("changed", ["st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev"])
def test_each_part_of_a_stamp_tells_a_change_by_itself(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    parts = {"st_mtime_ns": 1, "st_ctime_ns": 2, "st_ino": 3, "st_dev": 4}
    names = WalkedFolder(b"/x", stamps={b"/x": (1, 2, 3, 4)})
    monkeypatch.setattr(os, "lstat", lambda _: SimpleNamespace(**parts))
    assert names.is_current()
    parts[changed] = 5
    assert not names.is_current()


def test_a_directory_named_like_an_ignore_file_is_none(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / ".gitignore" / "a.txt").touch()
    with capture_logs() as logs:
        assert named(tmp_path, Rules())[1] == [b".gitignore/a.txt"]
    assert logs == []


def test_no_names_lead_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "deep" / "a.txt").touch()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    source = LocalFolder(str(tmp_path / "inside"), [tmp_path])
    for top in ((b"link",), (b"link", b"deep"), (b"link", b"deep", b"a.txt")):
        names = WalkedFolder(source.real_path)
        assert list(walk(source, Rules(), names, top)) == []
        assert not [path for path in names.stamps if b"link" in path]


def test_a_folder_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "empty").mkdir(parents=True)
    scanned, scandir = list[bytes](), os.scandir

    def counted(handle: int) -> Any:
        scanned.append(bytes(Path(f"/proc/self/fd/{handle}").readlink()))
        return scandir(handle)

    monkeypatch.setattr(os, "scandir", counted)
    source = LocalFolder(str(tmp_path), [tmp_path])
    list(walk(source, Rules(), WalkedFolder(source.real_path)))
    assert scanned == [bytes(tmp_path), bytes(tmp_path / "a"), bytes(tmp_path / "a" / "empty")]
