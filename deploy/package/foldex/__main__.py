"""Runs the command line: `foldex`, or `python -m foldex`."""

from __future__ import annotations

import os
import signal
import sys

#: The status of a program that Ctrl-C ended.
INTERRUPTED = 130

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # a traceback of modules that are loaded would tell nobody anything
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


def run() -> None:
    """Run the command line with the packages that lie below this one, or in a checkout beside it."""
    from pathlib import Path

    here = Path(__file__).resolve().parent
    if (here / "api").is_dir():
        sys.path.insert(0, str(here))
    from api.cli.commands import run as run_commands

    run_commands()


if __name__ == "__main__":
    run()
