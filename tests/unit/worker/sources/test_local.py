"""Special cases of directories: links, special files, odd names, closed directories."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.content.document import SourceEntry
from schemas.errors import FileError, FolderGone, SourceRefused, SourceUnavailable
from schemas.reason import Reason
from worker.ignore import Rules
from worker.sources import local_directories
from worker.sources.local import LocalFolder
from worker.sources.local_walk import WalkedFolder, walk

LIMIT = 1_000_000
NOBODY = 65534


def source(root: Path, page_size: int = 1000) -> LocalFolder:
    return LocalFolder(str(root), [root], page_size=page_size)


def listed(folder: LocalFolder) -> list[SourceEntry]:
    page = folder.list(None)
    entries = page.entries
    while page.cursor is not None:
        page = folder.list(page.cursor)
        entries += page.entries
    return entries


def reason_of(folder: LocalFolder, key: bytes, limit: int = LIMIT) -> Reason:
    with pytest.raises(FileError) as failed:
        folder.read(key, limit)
    return failed.value.reason


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


# --- the directory where every project's content lies


def test_a_closed_directory_is_never_entered_whatever_the_rules_say(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "data/home/objects/other", "data/home-made.md", "z.md")
    (tmp_path / "linked").symlink_to(tmp_path / "data" / "home")
    for home in (tmp_path / "data" / "home", tmp_path / "linked"):
        rules = Rules(exclude=["!data/home/"], keep=["caches"])
        folder = LocalFolder(str(tmp_path), [tmp_path], rules, closed=home, page_size=2)
        assert {entry.path for entry in listed(folder)} == {"a.md", "data/home-made.md", "linked", "z.md"}
        assert reason_of(folder, b"data/home/objects/other") is Reason.UNREADABLE
        assert folder.leaves_out(b"data/home/objects/other")
        assert not folder.leaves_out(b"data/home-made.md")
        below = (b"data", b"home", b"objects", b"other")
        for top in (below[:depth] for depth in range(5)):
            assert not any(
                key.startswith(b"data/home/") for key, _ in walk(folder, rules, WalkedFolder(folder.real_path), top)
            )
    assert LocalFolder(str(tmp_path), [tmp_path], closed=home).list(None).ignored == {"foldex_home_directories": 1}


# --- ignore files that are not files


def test_an_ignore_file_that_cannot_be_read_is_counted_and_stops_nothing(tmp_path: Path) -> None:
    fill(tmp_path, "a.log", "directory/a.log", "pipe/a.log", "link/a.log")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "directory" / ".gitignore").mkdir()
    os.mkfifo(tmp_path / "pipe" / ".gitignore")
    (tmp_path / "link" / ".gitignore").symlink_to("/etc/hostname")
    folder = LocalFolder(str(tmp_path), [tmp_path], Rules())
    page = folder.list(None)
    assert page.ignored == {"ignore_file": 4, "ignore_file_not_obeyed": 2}
    assert {entry.path for entry in page.entries} == {".gitignore", "pipe/.gitignore", "link/.gitignore"}


# --- where a folder may be


@pytest.mark.parametrize("path", ["inside", "inside/deep", "link-within"])
def test_folders_below_a_root_are_open(tmp_path: Path, path: str) -> None:
    fill(tmp_path, "inside/deep/a.md")
    (tmp_path / "link-within").symlink_to(tmp_path / "inside")
    folder = LocalFolder(str(tmp_path / path), [tmp_path / "elsewhere", tmp_path])
    folder.check()
    assert [entry.name for entry in listed(folder)] == ["a.md"]


@pytest.mark.parametrize("path", ["../outside", "../root-2", "link-out", "link-out/missing", "nul\0byte", "sur\ud800"])
def test_folders_outside_are_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    fill(tmp_path, "root/a.md", "root-2/b.md", "outside/c.md")
    (root / "link-out").symlink_to(tmp_path / "outside")
    folder = LocalFolder(f"{root}/{path}", [root])
    with pytest.raises(SourceRefused, match="LOCAL_SOURCE_ROOTS"):
        folder.check()
    with pytest.raises(SourceRefused):
        folder.list(None)
    with pytest.raises(SourceRefused):
        folder.read(b"c.md", LIMIT)


def test_relative_paths_and_no_roots_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, roots in ((".", [tmp_path]), (str(tmp_path), [])):
        with pytest.raises(SourceRefused):
            LocalFolder(path, roots).check()


@pytest.mark.parametrize("name", ["missing", "file.md"])
def test_what_is_no_directory_is_gone(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "file.md")
    with pytest.raises(FolderGone):
        LocalFolder(str(tmp_path / name), [tmp_path]).check()


# --- links and special files


def test_links_are_listed_and_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(tmp_path, "root/real/a.md", "outside/secret.md")
    (root / "to-file").symlink_to(tmp_path / "outside" / "secret.md")
    (root / "to-directory").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    (root / "dangling").symlink_to("nowhere")
    found = {entry.path: entry.reason for entry in listed(source(root))}
    links = dict.fromkeys(("dangling", "loop", "to-directory", "to-file"), Reason.SYMLINK)
    assert found == {**links, "real/a.md": None}
    assert reason_of(source(root), b"to-file") is Reason.SYMLINK
    assert reason_of(source(root), b"to-directory/secret.md") is Reason.UNREADABLE


@pytest.mark.parametrize(
    "key", [b"../outside/secret.md", b"/etc/passwd", b"", b".", b"real/../../outside/secret.md", b"real/a.md\0"]
)
def test_no_key_leads_outside(tmp_path: Path, key: bytes) -> None:
    fill(tmp_path, "root/real/a.md", "outside/secret.md")
    assert reason_of(source(tmp_path / "root"), key) is Reason.UNREADABLE


def test_a_directory_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(tmp_path, "root/d/a.md", "root/e/b.md", "outside/a.md")
    folder = source(root, page_size=1)
    page = folder.list(None)
    for name in ("d", "e"):
        shutil.rmtree(root / name)
        (root / name).symlink_to(tmp_path / "outside")
    assert reason_of(folder, b"d/a.md") is Reason.UNREADABLE
    rest = folder.list(page.cursor).entries
    assert [entry.path for entry in rest if entry.reason is None] == []


def test_special_files_are_told_and_never_waited_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        assert {(e.path, e.reason) for e in listed(source(tmp_path))} == {
            ("pipe", Reason.NOT_A_FILE),
            ("socket", Reason.NOT_A_FILE),
        }
        for key in (b"pipe", b"socket"):
            assert reason_of(source(tmp_path), key) is Reason.NOT_A_FILE


# --- names and order


def test_names_need_not_be_text(tmp_path: Path) -> None:
    for name in (b"caf\xe9.md", b"new\nline.md", b"d\xff/a.md"):
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name)
    for page_size in (1, 1000):
        entries = listed(source(tmp_path, page_size))
        assert [entry.key for entry in entries] == [b"caf\xe9.md", b"d\xff/a.md", b"new\nline.md"]
        assert [entry.path for entry in entries] == ["caf\\xe9.md", "d\\xff/a.md", "new\nline.md"]
    assert all(source(tmp_path).read(entry.key, LIMIT).data == entry.key for entry in entries)


def test_order_is_by_byte_within_each_directory(tmp_path: Path) -> None:
    fill(tmp_path, "a/z", "a-b", "a.txt", "B", "a/b/c", "\u00fc")
    assert [entry.path for entry in listed(source(tmp_path))] == ["B", "a/b/c", "a/z", "a-b", "a.txt", "\u00fc"]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_directory_above_the_window_is_listed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    monkeypatch.setattr(local_directories, "WINDOW", 7)
    names = sorted(f"d{i % 3}/{i:03}" if i % 2 else f"{i:03}" for i in range(100))
    fill(tmp_path, *names)
    folder, cursor, seen = source(tmp_path, 9), None, list[str]()
    while True:
        page = (source(tmp_path, 9) if fresh else folder).list(cursor)
        seen += [entry.path for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == names


def test_a_file_that_becomes_a_directory_under_the_cursor_is_entered(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    page = source(tmp_path, 1).list(None)
    (tmp_path / "a").unlink()
    fill(tmp_path, "a/inner")
    assert [entry.path for entry in source(tmp_path).list(page.cursor).entries] == ["a/inner", "b"]


def test_a_path_longer_than_the_system_allows_is_listed_and_read(tmp_path: Path) -> None:
    depth, here = 300, os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 20, dir_fd=here)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("a.md", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    [entry] = listed(source(tmp_path))
    assert entry.path.count("/") == depth
    assert source(tmp_path).read(entry.key, LIMIT).data == b""


def test_excluded_directories_are_not_entered(public: Path) -> None:
    fill(public, ".git/config", "a/node_modules/b/c.js", "a/d.md")
    (public / "a/node_modules").chmod(0o000)
    with without_privileges():
        page = LocalFolder(str(public), [public], Rules()).list(None)
    assert ([entry.path for entry in page.entries], page.unlisted) == (["a/d.md"], ())
    assert page.ignored == {"vcs_directories": 1, "dependencies_directories": 1}


# --- hostile folders


def test_fifty_thousand_files_in_one_directory_are_listed_once(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for number in range(50_000):
        os.close(os.open(f"{number}.md", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    (tmp_path / ".gitignore").write_text("*[13579].md\n")
    folder, cursor, ignored, seen = LocalFolder(str(tmp_path), [tmp_path], Rules()), None, 0, set[bytes]()
    while True:
        page = folder.list(cursor)
        assert len(page.entries) <= 1000
        seen.update(entry.key for entry in page.entries)
        ignored += sum(page.ignored.values())
        cursor = page.cursor
        if cursor is None:
            break
    assert (len(seen), ignored) == (25_001, 25_000)


def test_rules_hold_in_a_directory_of_any_depth(tmp_path: Path) -> None:
    depth, here = 1200, os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    for name, text in ((".gitignore", b"*.tmp\n"), ("a.md", b""), ("b.tmp", b"")):
        handle = os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=here)
        os.write(handle, text)
        os.close(handle)
    os.close(here)
    page = LocalFolder(str(tmp_path), [tmp_path], Rules()).list(None)
    assert [entry.name for entry in page.entries] == [".gitignore", "a.md"]
    assert page.ignored == {"ignore_file": 1}
    # too deep for pytest to remove
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_an_ignore_file_that_cannot_be_read_is_told_and_stops_nothing(public: Path) -> None:
    fill(public, ".gitignore", "a/.gitignore", "a/b.md")
    for path in (".gitignore", "a/.gitignore"):
        (public / path).write_text("*.md\n")
        (public / path).chmod(0o000)
    with without_privileges():
        page = LocalFolder(str(public), [public], Rules()).list(None)
    assert [entry.path for entry in page.entries] == [".gitignore", "a/.gitignore", "a/b.md"]


def test_a_listing_leaves_no_handle_open(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/c.md", "a/b/d.md", "e/f.md")
    before = len([*Path("/proc/self/fd").iterdir()])
    folder = LocalFolder(str(tmp_path), [tmp_path], Rules(), page_size=1)
    page = folder.list(None)
    while page.cursor is not None:
        assert len([*Path("/proc/self/fd").iterdir()]) == before
        page = folder.list(page.cursor)
    assert not folder.leaves_out(b"a/b/c.md")
    assert len([*Path("/proc/self/fd").iterdir()]) == before


@pytest.mark.parametrize("most_open", [2, 3, local_directories.MAX_OPEN])
def test_a_listing_opens_a_directory_once_and_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_open: int
) -> None:
    names = [f"{'d/' * depth}{side}/x.md" for depth in range(8) for side in "aez"]
    fill(tmp_path, *names)
    directories = {str(parent) for name in names for parent in Path(name).parents}
    monkeypatch.setattr(local_directories, "MAX_OPEN", most_open)
    before, at_once, opened, open_ = len([*Path("/proc/self/fd").iterdir()]), [0], [0], os.open

    def count(*args: Any, **kwargs: Any) -> int:
        opened[0] += 1
        handle = open_(*args, **kwargs)
        at_once[0] = max(at_once[0], len([*Path("/proc/self/fd").iterdir()]) - before)
        return handle

    monkeypatch.setattr(os, "open", count)
    page = LocalFolder(str(tmp_path), [tmp_path], Rules()).list(None)
    assert [entry.path for entry in page.entries] == sorted(names)
    # one more while the next is opened
    assert at_once[0] <= most_open + 1
    if most_open > 8:
        assert opened[0] == len(directories)


# --- what cannot be listed


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything, so this process temporarily runs as nobody."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that another user can reach, unlike those of `tmp_path`."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    # a test of a command may have made new files private in this process
    before = os.umask(0o022)
    yield path
    os.umask(before)
    path.chmod(0o755)
    for folder, inside, _ in os.walk(path):
        for name in inside:  # opened before the walk enters it
            (Path(folder) / name).chmod(0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize("mode", [0o000, 0o444])
@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_a_closed_directory_is_told_and_not_taken_for_empty(public: Path, page_size: int, mode: int) -> None:
    fill(public, "a.md", "closed/b.md", "closed/in/c.md", "d.md")
    (public / "closed").chmod(mode)
    entries: list[SourceEntry] = []
    unlisted: set[bytes] = set()
    cursor = None
    with without_privileges():
        while True:
            page = source(public, page_size).list(cursor)
            entries += page.entries
            unlisted.update(page.unlisted)
            cursor = page.cursor
            if cursor is None:
                break
        assert reason_of(source(public), b"closed/b.md") is Reason.UNREADABLE
    found = [(entry.path, entry.reason) for entry in entries]
    assert found == [("a.md", None), ("closed", Reason.UNREADABLE), ("d.md", None)]
    assert unlisted == {b"closed/"}


def test_a_directory_closed_behind_the_cursor_is_told(public: Path) -> None:
    fill(public, "d/a.md", "d/b.md")
    page = source(public, 1).list(None)
    (public / "d").chmod(0o000)
    with without_privileges():
        assert source(public).list(page.cursor).unlisted == (b"d/",)


def test_a_closed_root_is_refused_and_a_closed_file_fails_alone(public: Path) -> None:
    fill(public, "a.md")
    (public / "a.md").chmod(0o000)
    with without_privileges():
        assert reason_of(source(public), b"a.md") is Reason.UNREADABLE
    public.chmod(0o000)
    with without_privileges(), pytest.raises(SourceRefused):
        source(public).check()


def test_a_walk_that_failed_is_begun_again_and_not_taken_for_its_end(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(root, "a/1", "b/2", "c/3")
    folder = source(root, 1)
    cursor = folder.list(None).cursor
    root.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(FolderGone):
            folder.list(cursor)
    (tmp_path / "away").rename(root)
    assert [entry.path for entry in folder.list(cursor).entries] == ["b/2"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("paths", [None, [b"a/1"]])
def test_a_process_that_can_open_no_more_takes_nothing_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: list[bytes] | None, code: int
) -> None:
    fill(tmp_path, "a/1", "b/2")
    folder, open_ = source(tmp_path), os.open

    def opened(path: Any, *given: Any, **options: Any) -> int:
        if path == b"a":
            raise OSError(code, "Too many open files")
        return open_(path, *given, **options)

    monkeypatch.setattr(os, "open", opened)
    if paths is not None:
        folder.narrow(paths)
    with pytest.raises(SourceUnavailable, match="open files"):
        folder.list(None)
    with pytest.raises(SourceUnavailable, match="open files"):
        folder.read(b"a/1", 100)
