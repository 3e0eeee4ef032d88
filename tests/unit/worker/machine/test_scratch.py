"""Temporary directories of processes that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from worker.machine.scratch import Scratch, remove_abandoned

ROOT = Path(__file__).parents[4]
#: Makes a directory with a file in it, and is killed.
KILLED = """
import os, signal
from worker.machine.scratch import Scratch
scratch = Scratch()
(scratch.path / "file").touch()
print(scratch.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
#: Makes shared memory in a fork and in its parent, as Celery's pool does, and ends or is killed.
POOL = """
import os, sys
from worker.machine.scratch import hold_files_of_pool
hold_files_of_pool()
import billiard
def share():
    billiard.Value("i")
forked = billiard.Process(target=share)
forked.start()
forked.join()
share()
print(billiard.util.get_temp_dir(), flush=True)
if sys.argv[1:]:
    os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def abandoned(tmp_path: Path) -> Path:
    return aged(made_by(KILLED, tmp_path))


def made_by(program: str, place: Path, *arguments: str) -> Path:
    """The directory that a program has made in `place`."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Path(done.stdout.strip())


def aged(path: Path, seconds: float = 90) -> Path:
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_only_what_nobody_owns_any_more_is_removed(abandoned: Path, tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    abandoned.with_name(f"{abandoned.name}-link").symlink_to(aged(others))
    with Scratch() as owned:
        aged(owned)
        assert remove_abandoned() == 1
        assert (abandoned.exists(), owned.exists(), others.exists()) == (False, True, True)
    assert not owned.exists()


def test_a_directory_that_its_owner_may_yet_lock_stays(abandoned: Path) -> None:
    aged(abandoned, 30)
    assert (remove_abandoned(), abandoned.exists()) == (0, True)


def test_the_directory_of_another_user_stays(abandoned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert (remove_abandoned(), abandoned.exists()) == (0, True)


def test_a_fork_that_leaves_a_directory_leaves_it_owned() -> None:
    with Scratch() as owned:
        scratch = Scratch()
        child = os.fork()
        if child == 0:
            scratch.leave()
            os._exit(0)
        os.waitpid(child, 0)
        aged(scratch.path)
        aged(owned)
        assert remove_abandoned() == 0
        scratch.remove()


def test_files_of_the_pool_go_with_it_also_if_it_is_killed(tmp_path: Path) -> None:
    assert not made_by(POOL, tmp_path).exists()
    assert list(tmp_path.iterdir()) == []
    left = aged(made_by(POOL, tmp_path, str(int(signal.SIGKILL))))
    assert list(tmp_path.iterdir()) == [left]
    assert remove_abandoned() == 1
