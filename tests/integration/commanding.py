"""Runs `foldex`, the command, against a running service."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Mapping
from contextlib import chdir, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from api.cli.commands import main
from api.stack.record import ROOT
from tests.service import Service

#: The command as a terminal starts it: a shell's background jobs, such as this test may be one of, ignore Ctrl-C.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from foldex.__main__ import run
run()
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def environment(running: Service, **env: str) -> dict[str, str]:
    return {**os.environ, "FOLDEX_HOME": f"{running.home}/none", "FOLDEX_URL": str(running.client.base_url), **env}


def foldex(
    running: Service, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: str = ""
) -> Done:
    """Run the command in this process, which saves its start."""
    with chdir(cwd) if cwd else nullcontext():
        ended = CliRunner().invoke(main, arguments, input=stdin, env=environment(running, **(env or {})))
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Done(ended.exit_code, ended.stdout, ended.stderr)


def refused(done: Done, status: int = 2) -> str:
    """The one sentence of an error. Nothing else is printed."""
    assert (done.returncode, done.stdout) == (status, ""), (done.stdout, done.stderr)
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.rstrip().endswith((".", "?"))
    return done.stderr


def on_terminal(running: Service, *arguments: str, cwd: Path, columns: int = 80, answer: str = "", **env: str) -> Done:
    """Run the command in a terminal, where somebody has typed `answer`. What it shows is its `stdout`."""
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (24, columns))
        os.write(ours, answer.encode())
        child = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**environment(running), "TERM": "xterm", "PYTHONPATH": str(ROOT), **env},
        )
    finally:
        os.close(theirs)
    shown = b""
    # a terminal that nobody writes to any more is an error
    with suppress(OSError), child:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    os.close(ours)
    return Done(child.wait(), shown.decode().replace("\r\n", "\n"), "")


def process(running: Service, *arguments: str, **options: Any) -> Done:
    """Run the command as a program of its own."""
    command = [sys.executable, "-c", INTERRUPTIBLE, *arguments]
    options = {"env": environment(running), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    done = subprocess.run(command, **options, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)
