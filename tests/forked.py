"""Starts the programs of services as forks of one process that has imported what they share, as `foldex up` does.

A start then takes a small part of the processor time of its imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from api.stack import forks, programs
from api.stack.children import Child
from api.stack.forks import ForkServer
from api.stack.processes import Program, log_file, start
from api.stack.record import ROOT

#: Beginnings of the variables that an interpreter reads before its program.
READ_AT_START = ("PYTHON", "LD_")
#: Seconds that a command may take on a busy machine.
COMMAND_SECONDS = 100
_numbers = count()


class SharedForks:
    """A fork server that starts when it is first needed. Only the main thread may call."""

    def __init__(self) -> None:
        self._home: Path | None = None
        self._server: ForkServer | None = None

    def fork(self, program: Program, log: int, lock: int) -> Child | None:
        """Start a program. Returns None if it must start by itself: with another interpreter, or from other code."""
        if program.cwd != ROOT or _read_at_start(program.env) != _read_at_start(os.environ):
            return None
        if self._server is None:
            self._home = Path(mkdtemp(prefix="foldex-forks-"))
            self._server = ForkServer(programs.fork_server({"FOLDEX_HOME": str(self._home)}), self._home)
        child = self._server.fork(program, log, lock)
        # tests look at their own children, and at the ends of others
        forks._adopt(0)
        return child

    def stop(self) -> None:
        """End the server, after all that it started."""
        if self._server is not None and self._home is not None:
            self._server.stop()
            rmtree(self._home)
        self._server = self._home = None


#: The fork server of this process.
SHARED_FORKS = SharedForks()


def run_forked(home: Path, env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `python -m api` to its end, with its output in the logs of `home`."""
    name = f"command-{next(_numbers)}"
    # a fork has one log for both
    errors = log_file(home, f"{name}-errors")
    to_errors = f"import os; os.dup2(os.open({str(errors)!r}, os.O_WRONLY | os.O_CREAT), 2)"
    code = f"{to_errors}; from api.cli.commands import run; run()"
    command = (sys.executable, "-u", "-c", code, *arguments)
    process = start(Program(name, command, lambda: True, ROOT, {**os.environ, **env}), home, SHARED_FORKS.fork)
    status = process.child.wait(COMMAND_SECONDS)
    return subprocess.CompletedProcess(arguments, status, log_file(home, name).read_text(), errors.read_text())


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}
