"""Ctrl-C before the command has begun, and after it has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Runs the command, and presses Ctrl-C when a module is looked for, or at the end of the process.
PRESSED = """
import atexit, os, signal, sys

MOMENT = sys.argv[1]

def press():
    os.kill(os.getpid(), signal.SIGINT)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == MOMENT:
            press()

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
if MOMENT == "exit":
    atexit.register(press)
from foldex.__main__ import run
sys.argv[1:] = ["--version"]
run()
"""


@pytest.mark.parametrize("moment", ["pathlib", "api.cli.commands", "click", "exit"])
def test_ctrl_c_at_any_moment_ends_a_command_without_a_traceback(moment: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRESSED, moment], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")
