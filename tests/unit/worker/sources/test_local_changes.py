"""Files of a directory that change while they are listed and read, and stamps that tell it."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.unit.worker.sources.test_local import LIMIT, fill, listed, reason_of, source
from worker.sources import local


def age(path: Path, seconds: float) -> None:
    then = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(then, then))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("link", Reason.SYMLINK),
        ("pipe", Reason.NOT_A_FILE),
        ("socket", Reason.NOT_A_FILE),
        ("directory", Reason.UNREADABLE),
    ],
)
def test_a_file_that_becomes_another_thing_between_the_look_and_the_opening_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, reason: Reason
) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret.md"
    fill(root, "a.md")
    fill(tmp_path, "secret.md", "directory/b.md")
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        look = local._refuse_special

        def look_and_swap(info: os.stat_result) -> None:
            look(info)
            if (tmp_path / other).exists():
                (root / "a.md").unlink()
                (tmp_path / other).rename(root / "a.md")

        monkeypatch.setattr(local, "_refuse_special", look_and_swap)
        assert reason_of(source(root), b"a.md") is reason


def test_a_young_file_is_read_without_a_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "a.md")
    assert source(tmp_path).read(b"a.md", LIMIT).stamp is None
    two_seconds_old = (tmp_path / "a.md").stat().st_mtime_ns + 2_000_000_000
    for now_ns, is_trusted in ((two_seconds_old - 1, False), (two_seconds_old, True)):
        monkeypatch.setattr(time, "time_ns", lambda now=now_ns: now)
        assert (source(tmp_path).read(b"a.md", LIMIT).stamp is not None) is is_trusted
    monkeypatch.undo()
    age(tmp_path / "a.md", 3600)
    assert source(tmp_path).read(b"a.md", LIMIT).stamp == source(tmp_path).list(None).entries[0].stamp


def test_a_stamp_tells_a_swap_of_equal_size_and_time(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "b.md")
    for name in ("a.md", "b.md"):
        os.utime(tmp_path / name, ns=(1, 1))
    before = source(tmp_path).list(None).entries[0].stamp
    (tmp_path / "b.md").rename(tmp_path / "a.md")
    assert source(tmp_path).list(None).entries[0].stamp != before


def test_a_stamp_tells_an_edit_of_equal_size_whose_time_was_set_back(tmp_path: Path) -> None:
    fill(tmp_path, "a.md")
    age(tmp_path / "a.md", 60)
    (before,), time_ns = listed(source(tmp_path)), (tmp_path / "a.md").stat().st_mtime_ns
    (tmp_path / "a.md").write_text("b.md")
    os.utime(tmp_path / "a.md", ns=(time_ns, time_ns))
    (after,) = listed(source(tmp_path))
    assert (after.size, after.mtime_ms) == (before.size, before.mtime_ms)
    assert after.stamp != before.stamp


@pytest.mark.parametrize("changed", ["st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"])
def test_each_part_of_a_stamp_tells_a_change_by_itself(changed: str) -> None:
    """On some file systems a file that takes the place of another keeps all but one."""
    same = {"st_size": 1, "st_mtime_ns": 2, "st_ctime_ns": 3, "st_ino": 4}

    def stamp(**parts: int) -> str:
        return local._stamp(cast("os.stat_result", SimpleNamespace(**parts)))

    assert stamp(**same) == stamp(**same)
    assert stamp(**same | {changed: 5}) != stamp(**same)


def test_a_file_that_grows_while_it_is_read_keeps_the_limit_or_has_no_stamp(tmp_path: Path) -> None:
    path, begun, stop = tmp_path / "log", threading.Event(), threading.Event()
    path.write_bytes(b"x" * 900_000)
    age(path, 3600)

    def grow() -> None:
        with path.open("ab") as file:
            while not stop.is_set():
                file.write(b"y" * 5000)
                file.flush()
                begun.set()
                if file.tell() > 4 * LIMIT:
                    file.truncate(900_000)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert begun.wait(30)
        for _ in range(50):
            with suppress(FileError):
                content = source(tmp_path).read(b"log", LIMIT)
                assert len(content.data) <= LIMIT
                assert content.stamp is None
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(("changes", "is_trusted"), [(0, True), (1, True), (2, False)])
def test_a_file_that_changes_while_it_is_read_is_read_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int, is_trusted: bool
) -> None:
    path, left = tmp_path / "a.md", changes
    path.write_text("text 0")
    age(path, 3600)
    read = local._bytes

    def read_and_change(handle: int, limit: int) -> bytes:
        nonlocal left
        data = read(handle, limit)
        if left:
            path.write_text(f"text {changes - left + 1}")
            # old again, so that only the comparison reveals it
            age(path, 3600)
            left -= 1
        return data

    monkeypatch.setattr(local, "_bytes", read_and_change)
    content = source(tmp_path).read(b"a.md", LIMIT)
    if is_trusted:
        assert content.data.decode() == path.read_text() == f"text {changes}"
        assert content.stamp == source(tmp_path).list(None).entries[0].stamp
    else:
        assert content.stamp is None
