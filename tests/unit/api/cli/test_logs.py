"""`foldex logs` shows the end of each log, and follows it wherever it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from api.cli import logs
from api.cli.commands import main
from api.cli.logs import Log
from api.stack.record import ROOT
from tests.integration.commanding import INTERRUPTIBLE
from tests.service import eventually


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    for name in ("api", "worker-fast"):
        (tmp_path / "log" / f"{name}.log").write_text("".join(f"{name} {number}\n" for number in range(100)))
    return tmp_path


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["logs", *arguments], env={"FOLDEX_HOME": str(home)})


def test_the_last_lines_of_each_log_are_printed(home: Path) -> None:
    assert run(home, "-n", "2").output.splitlines() == [
        "api         | api 98", "api         | api 99", "worker-fast | worker-fast 98", "worker-fast | worker-fast 99",
    ]  # fmt: skip # a line each says nothing
    assert run(home, "api", "-n", "1").output == "api 99\n"
    assert run(home, "worker-fast", "-n", "1000").output.count("\n") == 100


def test_what_is_not_there_is_told(home: Path, tmp_path: Path) -> None:
    done = run(home, "beat")
    assert (done.exit_code, "name one of api, worker-fast" in done.output) == (2, True)
    assert (run(tmp_path / "none").exit_code, run(tmp_path / "none", "api").exit_code) == (1, 2)
    assert run(home, "../api").exit_code == 2


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_only_the_end_of_a_long_log_is_read(home: Path, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    (home / "log" / "api.log").write_text("first\nsecond\n")
    monkeypatch.setattr(logs, "TAIL_BYTES", len("first\nsecond\n") + more)
    assert Log(home, "api").last(9) == (["second"] if more < 0 else ["first", "second"])


def test_lines_cannot_steer_a_terminal(home: Path) -> None:
    (home / "log" / "api.log").write_bytes(b"a\x1b[31mb\r\xff\n")
    assert run(home, "api").output == "a�[31mb��\n"


def test_a_log_is_followed_through_parts_rotation_and_truncation(home: Path) -> None:
    path = home / "log" / "api.log"
    log = Log(home, "api")
    assert log.last(1) == ["api 99"]
    with path.open("a") as file:
        file.write("half")
    assert list(log.new()) == []
    with path.open("a") as file:
        file.write(" and half\n")
    assert list(log.new()) == ["half and half"]
    path.rename(home / "log" / "api.log.1")
    assert list(log.new()) == []
    path.write_text("after it was moved\n")
    assert list(log.new()) == ["after it was moved"]
    path.write_text("short\n")
    assert list(log.new()) == ["short"]
    path.write_bytes(b"x" * (logs.MAX_LINE + logs.BLOCK))
    assert sum(map(len, log.new())) > logs.MAX_LINE


def test_following_goes_on_until_it_is_interrupted(home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "logs", "-f", "api", "-n", "1"]
    shown = tmp_path / "shown"
    with (
        shown.open("w") as file,
        subprocess.Popen(
            command, env={**os.environ, "FOLDEX_HOME": str(home), "PYTHONPATH": str(ROOT)}, stdout=file
        ) as process,
    ):
        try:
            eventually(lambda: shown.read_text() == "api 99\n", 30)
            with (home / "log" / "api.log").open("a") as log:
                log.write("new\n")
            eventually(lambda: shown.read_text() == "api 99\nnew\n", 30)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
