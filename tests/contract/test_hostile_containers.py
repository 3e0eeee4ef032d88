"""Containers that a tenant made to harm: whatever they are, they cost a helper's limits and have an outcome."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import psutil
import pytest

from schemas.errors import FileError, FileTooSlow, SourceBusy
from schemas.reason import Reason
from tests.compound import outlook
from tests.containers import large_directory, long_number, mailed, many_parts, nested_mail, parted_name, tarred, zipped
from worker.ignore import EVERYTHING
from worker.sandbox import pool as pool_module
from worker.sandbox import process
from worker.sandbox.members import MAX_MEMBERS, Packing
from worker.sandbox.pool import BRISK, PATIENT, HelperLimits, HelperPool, ProjectHelpers
from worker.sandbox.protocol import PROGRAM
from worker.sandbox.requests import list_members, read_kept, read_member
from worker.sources import opening
from worker.sources.local import LocalFolder
from worker.sources.opening import OpeningSource

MEMORY = 512 << 20
LIMIT = 50_000_000
#: Seconds of processor time of a request in these tests, which bounds what they take.
SECONDS = 1.0


@pytest.fixture(scope="module")
def helpers() -> Iterator[ProjectHelpers]:
    made = ProjectHelpers(_pool(), "project")
    yield made
    made.pool.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("run as root where a small tmpfs may be mounted")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def _pool(number: int = 1, seconds: float = SECONDS, patience: float = 10.0) -> HelperPool:
    return HelperPool(HelperLimits(number, seconds, patience), max_seconds=60.0, memory_bytes=MEMORY)


HOSTILE: dict[str, tuple[Packing, Callable[[], bytes]]] = {
    "a number of 2,000,000 digits": ("tar", lambda: long_number(2_000_000)),
    "a number of 40,000,000 digits": ("tar", lambda: long_number(40_000_000)),
    "40,000 semicolons": ("mail", lambda: parted_name(40_000)),
    "2,000,000 semicolons": ("mail", lambda: parted_name(2_000_000)),
    "a directory of 40 MB": ("zip", lambda: large_directory(40_000_000)),
    "300,000 parts": ("mail", lambda: many_parts(300_000)),
    "nested parts": ("mail", lambda: nested_mail(3_000)),
    "zeros by gzip": ("tar", lambda: gzip.compress(bytes(600_000_000), 1)),
    "zeros by xz": ("tar", lambda: lzma.compress(bytes(100_000_000), preset=0) * 8),
    "zeros by bzip2": ("tar", lambda: bz2.compress(bytes(60_000_000)) * 10),
    "members of a petabyte": ("zip", lambda: large_directory(1_000).replace(struct.pack("<L", 0), b"\xff" * 4)),
    "nested names": ("tar", lambda: tarred({"a/" * 20_000 + "b": b""})),
}


@pytest.mark.parametrize("limits", [BRISK, PATIENT])
def test_helpers_of_the_api_give_way_to_its_calls(limits: HelperLimits) -> None:
    made = HelperPool(limits, max_seconds=60.0, memory_bytes=MEMORY)
    try:
        list_members(ProjectHelpers(made, "project"), "good", "zip", zipped({"a.md": b"a"}))
        [helper] = [each for each in psutil.Process().children() if PROGRAM in each.cmdline()][-1:]
        assert helper.nice() - psutil.Process().nice() == limits.niceness
        group = Path(f"/proc/{helper.pid}/autogroup")
        # elsewhere niceness counts without one
        assert not group.exists() or group.read_text().endswith(f" nice {helper.nice()}\n")
    finally:
        made.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_container_has_an_outcome_in_bounded_time(helpers: ProjectHelpers, name: str) -> None:
    packing, make = HOSTILE[name]
    data = make()
    before = psutil.Process().memory_info().rss
    worked = time.process_time()
    with suppress(FileError):
        assert len(list_members(helpers, name, packing, data)) <= MAX_MEMBERS
    # this process neither parses nor holds what the helper does
    assert time.process_time() - worked < 1
    assert psutil.Process().memory_info().rss - before < 3 * len(data) + (30 << 20)
    assert [each.path for each in list_members(helpers, "good", "zip", zipped({"a.md": b"a"}))] == ["a.md"]


def test_an_archive_that_would_fill_the_disk_of_temporary_files_is_refused(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    small = ProjectHelpers(_pool(), "project")
    try:
        # of 64 MiB a quarter stays free
        fits, fills = (gzip.compress(tarred({"a": bytes(size << 20)}), 1) for size in (40, 56))
        assert [each.path for each in list_members(small, "fits", "tar", fits)] == ["a"]
        small.pool.stop()
        with pytest.raises(FileError, match="The disk of temporary files has") as refused:
            list_members(small, "fills", "tar", fills)
        assert refused.value.reason is Reason.UNREADABLE
        assert shutil.disk_usage(small_disk).free > 15 << 20
    finally:
        small.pool.stop()


def test_what_takes_too_long_is_too_large_with_a_remedy(helpers: ProjectHelpers) -> None:
    with pytest.raises(FileTooSlow) as refused:
        list_members(helpers, "slow", "mail", many_parts(300_000))
    assert refused.value.reason is Reason.TOO_LARGE
    assert "takes too long to open; unpack it" in refused.value.message


def test_containers_that_take_long_end_a_page_and_are_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PAGE_SECONDS", 0.3)
    for number in range(3):
        (tmp_path / f"{number}.eml").write_bytes(many_parts(300_000))
    (tmp_path / "a.zip").write_bytes(zipped({"a.md": b"a"}))
    helpers, opened = ProjectHelpers(_pool(seconds=0.5), "project"), list[str]()

    def source() -> OpeningSource:
        # a new source stands for the next slice
        folder = LocalFolder(str(tmp_path), [tmp_path])
        return OpeningSource(folder, EVERYTHING, ("archives", "attachments"), LIMIT, helpers)

    def noted(asked: ProjectHelpers, name: str, packing: Packing, data: bytes) -> object:
        opened.append(packing)
        return list_members(asked, name, packing, data)

    monkeypatch.setattr(opening, "list_members", noted)
    pages = [source().list(None)]
    while pages[-1].cursor is not None:
        pages.append(source().list(pages[-1].cursor))
    helpers.pool.stop()
    assert [entry.path for page in pages for entry in page.entries] == ["0.eml", "1.eml", "2.eml", "a.zip/a.md"]
    assert (len(pages) >= 3, sum(page.slow for page in pages), len(opened)) == (True, 3, 4)


def _children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if PROGRAM in child.cmdline()]


@pytest.mark.parametrize(
    ("operation", "how"),
    [
        ("list", signal.SIGKILL),
        ("read", signal.SIGKILL),
        ("read kept", signal.SIGKILL),
        ("read", signal.SIGSTOP),
        ("read kept", signal.SIGSTOP),
    ],
)
def test_a_helper_that_dies_or_freezes_is_replaced(
    monkeypatch: pytest.MonkeyPatch, operation: str, how: signal.Signals
) -> None:
    # a frozen one is waited for until the end
    monkeypatch.setattr(process, "PIPE_SECONDS", 8.0 if how == signal.SIGSTOP else 60.0)
    helpers = ProjectHelpers(_pool(patience=0.1), "project")
    data = zipped({"a.md": b"text"})
    assert read_member(helpers, "a", "zip", data, "a.md", LIMIT) == b"text"
    child = max(_children(), key=psutil.Process.create_time)
    os.kill(child.pid, how)
    if operation == "list":
        assert [each.path for each in list_members(helpers, "a", "zip", data)] == ["a.md"]
    elif operation == "read":
        assert read_member(helpers, "a", "zip", data, "a.md", LIMIT) == b"text"
    else:
        assert read_kept(helpers, "a", "a.md", LIMIT) is None
    assert read_member(helpers, "a", "zip", data, "a.md", LIMIT) == b"text"
    assert read_kept(helpers, "a", "a.md", LIMIT) == b"text"
    helpers.pool.stop()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


#: Answers each request with what it gets as an argument.
LIAR = """
import os, sys
sys.path[:0] = [{root!r}]
from worker.sandbox.protocol import REQUEST
with os.fdopen(os.dup(0), "rb") as requests:
    while lengths := requests.read(REQUEST.size):
        requests.read(sum(REQUEST.unpack(lengths)))
        os.write(1, eval(sys.argv[1]))
"""
LIES = {
    "no JSON": "(4).to_bytes(8, 'big') + bytes(8) + b'nope'",
    "no object": "(2).to_bytes(8, 'big') + bytes(8) + b'[]'",
    "too much": "(1 << 40).to_bytes(8, 'big') + bytes(8)",
    "too much payload": "(2).to_bytes(8, 'big') + (1 << 40).to_bytes(8, 'big') + b'{}'",
    "nothing": "(2).to_bytes(8, 'big') + bytes(8) + b'{}'",
    "a path that leads out": "(37).to_bytes(8, 'big') + bytes(8) + b'{\"members\":[[\"../aaaaaaaaa\",1,null]]}'",
    "an unknown reason": '(26).to_bytes(8, \'big\') + bytes(8) + b\'{"reason":"x","message":1}\'',
    "part of an answer": "b'1234'",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_helper_that_answers_nonsense_is_an_outcome(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lie: str
) -> None:
    (tmp_path / "liar.py").write_text(LIAR.format(root=str(Path(__file__).resolve().parents[2])))
    started = subprocess.Popen

    def lying(_: list[str], **options: Any) -> object:
        return started([sys.executable, str(tmp_path / "liar.py"), LIES[lie]], **options)

    monkeypatch.setattr("worker.sandbox.process.subprocess.Popen", lying)
    monkeypatch.setattr(process, "PIPE_SECONDS", 1.0)
    helpers = ProjectHelpers(_pool(patience=0.0), "project")
    with pytest.raises(FileError) as refused:
        list_members(helpers, "a", "zip", zipped({"a.md": b"a"}))
    assert refused.value.reason is Reason.CRASHED
    helpers.pool.stop()


def test_one_projects_containers_leave_a_helper_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One project keeps all the helpers busy that it may have. Another one is answered meanwhile."""
    monkeypatch.setattr(pool_module, "WAIT_SECONDS", 0.2)
    pool = _pool(2, seconds=3.0)
    hostile, other = ProjectHelpers(pool, "hostile"), ProjectHelpers(pool, "other")
    good = zipped({"a.md": b"a"})

    def attack() -> None:
        with suppress(FileError):
            list_members(hostile, "slow", "mail", many_parts(300_000))

    thread = Thread(target=attack)
    thread.start()
    while not pool._slots._held["hostile"]:
        time.sleep(0.01)
    with pytest.raises(SourceBusy):
        list_members(hostile, "a", "zip", good)
    assert [each.path for each in list_members(other, "a", "zip", good)] == ["a.md"]
    assert thread.is_alive(), "the attack was still going on"
    thread.join()
    assert [each.path for each in list_members(hostile, "a", "zip", good)] == ["a.md"]
    pool.stop()


def test_an_idle_helper_ends_and_the_next_request_starts_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.3)
    helpers = ProjectHelpers(_pool(), "project")
    data, before = zipped({"a.md": b"a"}), len(_children())
    list_members(helpers, "a", "zip", data)
    assert len(_children()) == before + 1
    deadline = time.monotonic() + 30
    while len(_children()) > before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [each.path for each in list_members(helpers, "a", "zip", data)] == ["a.md"]
    helpers.pool.stop()


def test_a_helper_outlives_the_thread_that_started_it() -> None:
    helpers = ProjectHelpers(_pool(), "project")
    data, before = zipped({"a.md": b"a"}), {child.pid for child in _children()}
    thread = Thread(target=list_members, args=(helpers, "a", "zip", data))
    thread.start()
    thread.join()
    (child,) = [child for child in _children() if child.pid not in before]
    assert read_kept(helpers, "a", "a.md", LIMIT) == b"a", "it still has the container"
    assert child.is_running()
    helpers.pool.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems confine no process")
def test_a_helper_of_a_pool_is_confined_as_any_other(helpers: ProjectHelpers) -> None:
    list_members(helpers, "a", "zip", zipped({"a.md": b"a"}))
    for child in _children():
        status = Path(f"/proc/{child.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert "CapEff:\t0000000000000000" in status or os.geteuid() == 0
        assert not [each for each in Path(f"/proc/{child.pid}/fd").iterdir() if "socket" in str(each.readlink())]


@pytest.mark.parametrize("kept", [4, 5])
def test_a_helper_keeps_a_few_containers_open(helpers: ProjectHelpers, kept: int) -> None:
    for number in range(kept):
        read_member(helpers, f"{kept} {number}", "zip", zipped({"a.md": b"%d" % number}), "a.md", LIMIT)
    assert read_kept(helpers, f"{kept} 0", "a.md", LIMIT) == (b"0" if kept == 4 else None)
    assert read_kept(helpers, f"{kept} {kept - 1}", "a.md", LIMIT) == b"%d" % (kept - 1)


def test_thousands_of_random_corrupt_containers_have_outcomes(helpers: ProjectHelpers) -> None:
    rng = Random(48)
    files = {f"{number}.md": rng.randbytes(200) for number in range(3)}
    whole: list[tuple[Packing, bytes]] = [
        ("zip", zipped(files)),
        ("tar", tarred(files)),
        ("tar", tarred(files, "w:gz")),
        ("tar", tarred(files, "w:xz")),
        ("tar", tarred(files, "w:bz2")),
        ("mail", mailed(files)),
        ("outlook", outlook({"0037": "Report"}, tuple(files), tuple(files.values()))),
    ]
    opened, worked = 0, time.process_time()
    for number in range(3_000):
        packing, data = rng.choice(whole)
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 12)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.choice([1, 1, 4])] = rng.randbytes(rng.choice([1, 1, 4]))
        if number % 7 == 0:
            del damaged[rng.randrange(len(damaged)) :]
        with suppress(FileError):
            members = list_members(helpers, "corrupt", packing, bytes(damaged))
            opened += 1
            for member in members[:1]:
                read_kept(helpers, "corrupt", member.path, LIMIT)
    assert opened > 300
    assert time.process_time() - worked < 20
