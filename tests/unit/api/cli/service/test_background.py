"""Ctrl-C while the command starts the stack, and a stack that does not start or stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.cli.invocation import VerbFailed
from api.cli.service import background
from api.stack.record import lock_file
from tests.service import eventually

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    # a shell's background jobs, such as this process may be one of, ignore Ctrl-C
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_ctrl_c_within_the_start_of_the_process_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = subprocess.Popen
    children: list[subprocess.Popen[bytes]] = []

    def interrupted(_command: list[str], **_options: Any) -> subprocess.Popen[bytes]:
        children.append(started(SLEEP))
        os.kill(os.getpid(), signal.SIGINT)
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            background.start(tmp_path, lambda _line: None)
        assert [child.poll() for child in children] == [-signal.SIGTERM]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_ctrl_c_stays_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    during: list[object] = []

    def failing(*_arguments: Any, **_options: Any) -> subprocess.Popen[bytes]:
        during.append(signal.getsignal(signal.SIGINT))
        raise OSError("no process")

    monkeypatch.setattr(subprocess, "Popen", failing)
    with pytest.raises(OSError, match="no process"):
        background.start(tmp_path, lambda _line: None)
    assert during == [signal.SIG_IGN]


def test_what_keeps_a_stack_from_its_start_is_said_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trouble = "postgres keeps exiting: no permission. Its log is elsewhere"
    log = background.log_file(tmp_path)
    log.parent.mkdir()
    log.write_text(
        f"Starting\n  redis        ready after 0.1 s\n  postgres exited with 2; restarting it\n  {trouble}\n"
    )
    monkeypatch.setattr(background, "START_SECONDS", 0.5)
    said: list[str] = []
    with subprocess.Popen(SLEEP) as child:
        monkeypatch.setattr(background, "_start", lambda _home: child)
        try:
            with pytest.raises(VerbFailed, match="did not answer"):
                background.start(tmp_path, said.append)
        finally:
            child.kill()
    assert said[1:] == [trouble]


#: Holds the lock of a stack, and does not obey.
FROZEN = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(os.getpid(), file=lock, flush=True)
time.sleep(600)
"""


def test_a_stack_that_does_not_stop_is_named_with_what_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(background, "STOP_SECONDS", 0.3)
    lock_file(tmp_path).parent.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", FROZEN, str(lock_file(tmp_path))]) as frozen:
        try:
            eventually(
                lambda: lock_file(tmp_path).exists() and lock_file(tmp_path).read_text() == f"{frozen.pid}\n", 20
            )
            with pytest.raises(VerbFailed, match=f"`kill -9 {frozen.pid}`"):
                background.stop(tmp_path)
        finally:
            frozen.kill()
    assert not background.stop(tmp_path)


def test_what_needs_no_stack_is_done_while_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    did: list[str] = []

    def started(_home: Path) -> Any:
        did.append("start")

    def answers(*_: Any) -> str:
        did.append("wait")
        return "http://127.0.0.1:1"

    monkeypatch.setattr(background, "_start", started)
    monkeypatch.setattr(background, "_address", answers)
    background.start(tmp_path, lambda _line: None, meanwhile=lambda: did.append("load"))
    assert did == ["start", "load", "wait"]
