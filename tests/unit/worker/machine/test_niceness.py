"""How nice a session is among others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from worker.machine import niceness
from worker.machine.niceness import share_with_session

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="run this on a Linux kernel with automatic groups of processes"
)


@contextmanager
def nicer_process(by: int, *, leads: bool) -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"], start_new_session=leads) as process:
        try:
            os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + by)
            yield process.pid
        finally:
            process.kill()


def group_of(pid: int | str) -> str:
    return Path(f"/proc/{pid}/autogroup").read_text().rpartition("nice")[2].strip()


def test_a_session_becomes_as_nice_as_its_leader() -> None:
    with nicer_process(3, leads=True) as pid:
        assert group_of(pid) == "0"
        share_with_session(pid)
        assert group_of(pid) == str(os.getpriority(os.PRIO_PROCESS, 0) + 3)


def test_the_session_of_another_leader_stays_as_it_is() -> None:
    before = group_of("self")
    with nicer_process(3, leads=False) as pid:
        share_with_session(pid)
    assert group_of("self") == before


def test_it_tries_again_when_the_system_is_asked_too_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written, write, asked = tmp_path / "autogroup", Path.write_text, list[str]()

    def refuse_once(file: Path, text: str) -> int:
        asked.append(text)
        if len(asked) == 1:
            raise BlockingIOError
        return write(file, text)

    monkeypatch.setattr(Path, "write_text", refuse_once)
    monkeypatch.setattr(niceness, "_PAUSE_SECONDS", 0.0)
    niceness._write(written, "5\n")
    assert (written.read_text(), asked) == ("5\n", ["5\n", "5\n"])
