"""The stack in the background: a search starts it, it outlives the command, and `foldex down` stops it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from api.stack.record import environment as stack_environment
from api.stack.record import owner
from tests.service import environment


def foldex(home: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # the stack finds its own servers and free ports
    given = {name: value for name, value in environment(home, "", "").items() if value}
    return subprocess.run(
        [sys.executable, "-m", "foldex", *arguments],
        env={**os.environ, **given, "LOCAL_SOURCE_ROOTS": "", "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_search_in_a_new_folder_starts_the_stack_and_answers(tmp_path: Path) -> None:
    home, folder, later = tmp_path / "home", tmp_path / "notes", tmp_path / "later"
    for each in (folder, later):
        each.mkdir()
        (each / "plan.md").write_text("Leases are renewed every two seconds by a thread.\n")
    try:
        first = foldex(home, "search", "who renews a lease", "--yes", cwd=folder)
        assert (first.returncode, first.stdout.split(":")[0]) == (0, "plan.md"), first.stdout + first.stderr
        assert "Starting Foldex in the background" in first.stderr
        pid = owner(home)
        assert pid is not None
        # it leads a session of its own, so the end of a terminal does not reach it
        assert os.getsid(pid) == pid
        # a folder that is named later needs no restart and no setting
        second = foldex(home, "index", str(later), cwd=tmp_path)
        assert (second.returncode, second.stderr) == (0, ""), second.stderr
        assert owner(home) == pid
        assert foldex(home, "doctor", cwd=tmp_path).returncode == 0
    finally:
        stopped = foldex(home, "down", cwd=tmp_path)
    assert stopped.returncode == 0, stopped.stderr
    assert owner(home) is None
    assert stack_environment(home) == {}
    assert foldex(home, "down", cwd=tmp_path).returncode == 1
    assert foldex(home, "status", cwd=tmp_path).returncode == 2


def test_a_stack_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no directory")
    done = foldex(tmp_path / "home", "index", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "FOLDEX_HOME" in done.stderr
    assert "Traceback" not in done.stderr
