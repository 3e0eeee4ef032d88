"""Whatever a path leads through, a handle is of what is there without any link; and both ways to open it agree."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import pytest

from worker.machine import handles
from worker.machine.handles import (
    DIRECTORY,
    closing,
    has_openat2,
    identity,
    identity_of,
    lies_in,
    open_at_once,
    open_beneath,
    open_by_steps,
    open_real,
)

FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
#: Errors that both mean that a link, or no directory, is on the way.
LEADS_NOWHERE = {errno.ELOOP, errno.ENOTDIR}
LINK = "|".join(map(os.strerror, LEADS_NOWHERE))
NOBODY = 65534

needs_openat2 = pytest.mark.skipif(not has_openat2(), reason="run on Linux 5.6 or later")


def outcome(start: int, parts: list[bytes], flags: int, *, at_once: bool) -> object:
    """The identity of what is opened, or the error."""
    try:
        opened = open_at_once(start, b"/".join(parts), flags) if at_once else open_by_steps(start, parts, flags)
    except OSError as error:
        return "leads nowhere" if error.errno in LEADS_NOWHERE else error.errno
    with closing(opened) as handle:
        return identity(handle)


def grow(folder: Path, rng: Random, depth: int = 3) -> None:
    """A tree with files, pipes, closed directories, and links of all kinds, with few names."""
    for name in "abc":
        kind = rng.choice(["directory", "directory", "directory", "file", "link", "pipe", "none"])
        path = folder / name
        if kind == "directory":
            path.mkdir()
            if depth:
                grow(path, rng, depth - 1)
            path.chmod(rng.choice([0o755, 0o755, 0o711, 0o000]))
        elif kind == "file":
            path.touch()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "link":
            path.symlink_to(rng.choice(["a", "b", "..", ".", "../a", str(folder), "/proc/self/root", "nowhere", "c"]))


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Root passes closed directories."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    yield
    if is_root:
        os.seteuid(0)


@needs_openat2
@pytest.mark.parametrize("seed", range(8))
def test_both_ways_agree(tmp_path_factory: pytest.TempPathFactory, seed: int, request: pytest.FixtureRequest) -> None:
    folder = tmp_path_factory.mktemp("tree")
    folder.chmod(0o755)
    grow(folder, Random(seed))
    with closing(open_real(bytes(folder))) as start:
        if seed % 2:
            request.getfixturevalue("as_nobody")
        outcomes = set()
        for length, flags in product(range(1, 5), (DIRECTORY, FILE)):
            for names in product((b"a", b"b", b"c"), repeat=length):
                parts = list(names)
                found = outcome(start, parts, flags, at_once=True)
                assert found == outcome(start, parts, flags, at_once=False), (parts, flags)
                outcomes.add(found if isinstance(found, str | int) else "opened")
        assert {"opened", "leads nowhere"} <= outcomes


@pytest.mark.parametrize("at_once", [pytest.param(True, marks=needs_openat2), False])
def test_no_link_is_followed_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    monkeypatch.setattr(handles, "has_openat2", lambda: at_once)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    for name, target in (("first", "a"), ("a/second", "b"), ("a/b/last", "file"), ("out", "/")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "magic").symlink_to("/proc/self/cwd")
    with closing(open_real(bytes(tmp_path))) as start:
        for path in (b"first/b/file", b"first/b", b"a/second", b"a/second/file", b"a/b/last", b"first", b"out/etc"):
            for flags in (DIRECTORY, FILE):
                with pytest.raises(OSError, match=LINK):
                    open_beneath(start, path.split(b"/"), flags)
    for path in (bytes(tmp_path) + b"/first/b", b"/proc/self/fd", b"/proc/self/root/etc", bytes(tmp_path) + b"/magic"):
        with pytest.raises(OSError, match=LINK):
            open_real(path)


@pytest.mark.parametrize("part", [b"", b".", b"..", b"a/b", b"/", b"a\0"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_name_that_leads_elsewhere_is_not_opened(tmp_path: Path, part: bytes, place: int) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    parts = [b"a", b"b", b"c"]
    parts[place] = part
    with closing(open_real(bytes(tmp_path))) as start, pytest.raises(OSError, match="Invalid"):
        open_beneath(start, parts)


@pytest.mark.parametrize("at_once", [pytest.param(True, marks=needs_openat2), False])
def test_a_way_through_directories_that_may_not_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, at_once: bool
) -> None:
    monkeypatch.setattr(handles, "has_openat2", lambda: at_once)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a").chmod(0o111)
    tmp_path.chmod(0o755)
    with closing(open_real(bytes(tmp_path))) as start:
        request.getfixturevalue("as_nobody")
        os.close(open_beneath(start, [b"a", b"b"]))


@needs_openat2
@pytest.mark.parametrize("length", [4095, 4096])
def test_a_path_of_any_length_is_opened(tmp_path: Path, length: int) -> None:
    parts = [b"d" * 200] * 20
    parts.append(b"e" * (length - len(b"/".join(parts)) - 1))
    assert len(b"/".join(parts)) == length
    with closing(open_real(bytes(tmp_path))) as start:
        for depth in range(1, len(parts) + 1):
            with closing(open_by_steps(start, parts[: depth - 1] or [b"."], DIRECTORY)) as above:
                os.mkdir(parts[depth - 1], dir_fd=above)
        with closing(open_beneath(start, parts)) as handle, closing(open_by_steps(start, parts, DIRECTORY)) as other:
            assert identity(handle) == identity(other)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_system_without_the_call_opens_step_by_step(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(handles, "open_at_once", refuse)
    has_openat2.cache_clear()
    assert not has_openat2()
    os.close(open_real(b"/usr/bin"))
    has_openat2.cache_clear()


def test_what_the_kernel_cannot_tell_at_once_is_opened_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsure(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "")

    monkeypatch.setattr(handles, "open_at_once", unsure)
    monkeypatch.setattr(handles, "has_openat2", lambda: True)
    with closing(open_real(bytes(tmp_path))) as handle:
        assert identity(handle) == identity_of(tmp_path.stat())


def test_a_directory_lies_in_itself_and_in_all_above_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    places = {name: identity_of((tmp_path / name).stat()) for name in ("", "a", "a/b", "ab")}
    for name in places:
        with closing(open_real(bytes(tmp_path / name))) as handle:
            for above, place in places.items():
                expected = (tmp_path / name).is_relative_to(tmp_path / above)
                assert lies_in(handle, {place}) == expected, (name, above)
            assert lies_in(handle, {identity_of(Path("/").stat())})
            assert not lies_in(handle, ())


def test_no_handle_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to("b")
    before = len([*Path("/dev/fd").iterdir()])
    for at_once, parts in product((True, False), ([b"a", b"b"], [b"a", b"link", b"c"], [b"a", b"none"], [b"a"])):
        with closing(open_real(bytes(tmp_path))) as start:
            outcome(start, parts, DIRECTORY, at_once=at_once and has_openat2())
            lies_in(start, ())
    assert len([*Path("/dev/fd").iterdir()]) == before
