"""How nice a session is among others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service import eventually
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
        eventually(lambda: group_of(pid) == str(os.getpriority(os.PRIO_PROCESS, 0) + 3), 30)


def test_the_session_of_another_leader_stays_as_it_is() -> None:
    before = group_of("self")
    with nicer_process(3, leads=False) as pid:
        share_with_session(pid)
    assert group_of("self") == before


def test_it_asks_again_without_waiting_when_the_system_is_asked_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals, write, asked = 30, Path.write_text, list[Path]()

    def refuse(file: Path, text: str) -> int:
        asked.append(file)
        if len(asked) <= refusals:
            raise BlockingIOError
        return write(file, text)

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(niceness, "_PAUSE_SECONDS", 0.01)
    with nicer_process(3, leads=True) as pid:
        share_with_session(pid)
        assert len(asked) < refusals
        wanted = str(os.getpriority(os.PRIO_PROCESS, pid))
        eventually(lambda: group_of(pid) == wanted, 30)


def test_it_asks_for_nothing_where_the_session_is_as_nice_already(monkeypatch: pytest.MonkeyPatch) -> None:
    with nicer_process(3, leads=True) as pid:
        wanted = os.getpriority(os.PRIO_PROCESS, pid)
        share_with_session(pid)
        eventually(lambda: group_of(pid) == str(wanted), 30)
        asked = list[Path]()
        monkeypatch.setattr(Path, "write_text", lambda file, text: asked.append(file))
        share_with_session(pid)
    assert not asked
