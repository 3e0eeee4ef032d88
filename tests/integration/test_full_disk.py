"""A disk without space: reported once, with the place and the needed space; work continues when there is space."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from signal import SIGKILL
from types import SimpleNamespace
from uuid import uuid4

import psycopg
import pytest
from fastapi.testclient import TestClient

from api.cli.invocation import VerbFailed
from api.cli.service import background
from api.main import create_app
from api.stack.embedded import stack
from api.stack.processes import NEEDED_BYTES, StackError, end_orphan, start, stop, wait_until
from api.stack.record import try_lock
from api.stack.supervisor import CRASH_LOOP_DEATHS, Supervisor
from schemas.errors import DiskFull, SourceUnavailable, StoreUnavailable
from tests.integration.test_stack import lives, pid, toy
from worker.machine.disk_space import LAST_SHARE, DiskSpace, free_bytes, usual_reserve
from worker.settings import Settings

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"run as root where a small tmpfs may be mounted: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> Path:
    """Fill all remaining space."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:

        def write_on() -> None:
            while True:
                file.write(bytes(4096))

        with pytest.raises(OSError, match="No space left on device"):
            write_on()
    return ballast


def test_a_full_disk_is_said_once_and_programs_start_when_it_has_space(small_disk: Path) -> None:
    said: list[str] = []
    supervisor = Supervisor([[toy(small_disk, "one"), toy(small_disk, "two")]], small_disk, said.append)
    supervisor.start(60)
    try:
        killed = {name: pid(small_disk, name) for name in ("one", "two")}
        ballast, before = fill(small_disk), len(said)
        for number in killed.values():
            os.kill(number, SIGKILL)
        assert wait_until(lambda: len(said) > before, 10)
        assert not wait_until(lambda: len(said) > before + 1, 2)
        assert said[before:] == [
            (
                f"  The disk of {small_disk} is full: {NEEDED_BYTES // MIB} MiB are needed, 0 MiB are left; "
                "free some space. Waiting for it."
            )
        ]
        ballast.unlink()
        for name, number in killed.items():
            assert wait_until(lambda name=name, number=number: runs_anew(small_disk, name, number), 20), said  # type: ignore[misc]
    finally:
        supervisor.stop()


def runs_anew(home: Path, name: str, number: int) -> bool:
    return (home / "run" / f"{name}.pid").exists() and pid(home, name) != number and lives(pid(home, name))


def test_a_start_is_given_up_once_a_full_disk_ends_a_program_again_and_again(small_disk: Path) -> None:
    said: list[str] = []
    supervisor = Supervisor([[toy(small_disk, "one", "raise SystemExit(3)")]], small_disk, said.append)
    with pytest.raises(StackError) as raised:
        # in this time it would end many times more
        supervisor.start(20)
    assert supervisor._slots[0].deaths == CRASH_LOOP_DEATHS
    assert said == [f"  {raised.value} Waiting for it."]
    assert f"{small_disk} is full" in said[0]


def test_a_program_whose_pid_cannot_be_written_does_not_run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("api.stack.processes.write_private", full)
        with pytest.raises(OSError, match="No space"):
            start(toy(tmp_path, "one"), tmp_path)
    with (tmp_path / "run" / "one.lock").open("ab") as lock:
        assert try_lock(lock.fileno())
    stop([start(toy(tmp_path, "one"), tmp_path)])


def test_an_empty_pid_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.stack.processes.HANDOVER_SECONDS", 0.1)
    first = start(toy(tmp_path, "one"), tmp_path)
    try:
        (tmp_path / "run" / "one.pid").write_text("")
        end_orphan(tmp_path, "one")
        with pytest.raises(StackError, match="one of an earlier run is still running: end it"):
            start(toy(tmp_path, "one"), tmp_path)
    finally:
        stop([first])


def test_a_stack_does_not_start_on_a_full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(small_disk)
    monkeypatch.setenv("FOLDEX_HOME", str(small_disk))
    sentence = (
        f"^The disk of {small_disk} is full: {NEEDED_BYTES // MIB} MiB are needed, 0 MiB are left; free some space.$"
    )
    with pytest.raises(StackError, match=sentence), stack(Settings(), lambda _: None):
        pass


@pytest.mark.parametrize("is_filled", [True, False])
def test_a_command_that_starts_foldex_on_a_full_disk_says_so_and_leaves_no_database(
    small_disk: Path, *, is_filled: bool
) -> None:
    home, said = small_disk / "home", list[str]()
    (home / "log").mkdir(parents=True)
    if is_filled:
        fill(small_disk)
    with pytest.raises(VerbFailed, match=rf"The disk of {home} is full: .* are left; free some space\."):
        background.start(home, said.append)
    assert len(said) == 1
    assert not (home / "postgres" / "data").exists()


def test_below_the_reserve_it_warns_and_below_a_quarter_it_refuses(tmp_path: Path) -> None:
    free = free_bytes(tmp_path)
    assert DiskSpace(tmp_path / "not there yet", free // 2).warning() is None
    warned = DiskSpace(tmp_path, 2 * free)
    assert str(tmp_path) in str(warned.warning())
    warned.check()
    with pytest.raises(Exception, match="are needed; free some") as raised:
        DiskSpace(tmp_path, 2 * LAST_SHARE * free).check()
    assert getattr(raised.value, "code", None) == "disk_full"


@pytest.mark.parametrize(
    ("free", "warns", "refuses"),
    [(100, False, False), (99, True, False), (100 // LAST_SHARE, True, False), (100 // LAST_SHARE - 1, True, True)],
)
def test_the_reserve_may_be_used_up_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, warns: bool, refuses: bool
) -> None:
    monkeypatch.setattr("worker.machine.disk_space.free_bytes", lambda _: free)
    space = DiskSpace(tmp_path, 100)
    assert (space.warning() is not None) == warns
    with pytest.raises(DiskFull) if refuses else nullcontext():
        space.check()


@pytest.mark.parametrize(("total", "reserve"), [(0, 0), (4 << 30, (4 << 30) // 10), (6 << 30, 512 << 20)])
def test_a_small_disk_has_a_small_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, reserve: int
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=total))
    assert usual_reserve(tmp_path / "not there yet") == reserve


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reserve", "code"),
    [
        (psycopg.errors.DiskFull("could not extend file"), 0, "disk_full"),
        (_full(), 0, "disk_full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 0, "disk_full"),
        (_caused(StoreUnavailable("objects"), DiskFull("no space")), 0, "disk_full"),
        (_caused(SourceUnavailable("objects"), _full()), 0, "disk_full"),
        (
            _caused(StoreUnavailable("lance"), RuntimeError("lance: No space left on device (os error 28)")),
            0,
            "disk_full",
        ),
        (psycopg.OperationalError("connection refused"), sys.maxsize, "disk_full"),
        (psycopg.OperationalError("connection refused"), 0, "database_unavailable"),
        (StoreUnavailable("lance"), 0, "store_unavailable"),
        (OSError(errno.EIO, "I/O error"), 0, "internal"),
    ],
    ids=str,
)
def test_errors_of_a_full_disk_have_a_code_of_their_own(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reserve: int, code: str
) -> None:
    monkeypatch.setattr("worker.resources.usual_reserve", lambda _: reserve)
    app = create_app(Settings(database_url="postgresql://127.0.0.1:1/none", auth="off"))

    @app.get("/fails")
    def fails() -> None:
        raise error

    answer = TestClient(app, raise_server_exceptions=False).get("/fails")
    assert answer.json()["code"] == code
    assert answer.status_code == (500 if code == "internal" else 503)
    assert (answer.headers.get("Retry-After") is None) == (code == "internal")


#: Calls that add nothing, or a few bytes: they ask, end something, or permit a folder.
ADD_NOTHING = ("/query", "/grep", "/cancel", "/api/search", "/api/places", "/api/session", "/keys", "/rotate")
#: Calls that no document describes.
UNDESCRIBED = [("POST", f"/v1/knowledge-bases/{{tool_id}}/raptor{end}") for end in ("", "/build")]


def test_what_adds_something_is_refused_at_once_while_the_disk_is_full(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a thread would import LiteLLM while later tests set their filters of warnings
    monkeypatch.setattr("api.main._warm", lambda _: None)
    # a database that answers: otherwise its silence would count as a full disk
    monkeypatch.setattr("worker.resources.usual_reserve", lambda _: sys.maxsize)
    app = create_app(Settings(database_url=database_url, foldex_home=tmp_path, auth="off"))
    described = [
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
        if method in {"post", "patch", "put"} and not path.endswith(ADD_NOTHING)
    ]
    assert len(described) >= 8
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as client:
        for method, path in described + UNDESCRIBED:
            answer = client.request(method, path.format(tool_id=uuid4(), project_id="p", node_id="n"), json={})
            assert (answer.status_code, answer.json()["code"]) == (503, "disk_full"), (method, path)
