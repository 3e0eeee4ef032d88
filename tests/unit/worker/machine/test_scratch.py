"""Temporary directories of processes that were killed."""

from __future__ import annotations

import os
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


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def abandoned(tmp_path: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return aged(Path(done.stdout.strip()))


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
