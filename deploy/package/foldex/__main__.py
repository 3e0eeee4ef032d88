"""Runs the command line: `foldex`, or `python -m foldex`."""

from __future__ import annotations

import sys
from pathlib import Path


def run() -> None:
    """Run the command line with the packages that lie below this one, or in a checkout beside it."""
    here = Path(__file__).resolve().parent
    if (here / "api").is_dir():
        sys.path.insert(0, str(here))
    from api.cli.commands import run as run_commands

    run_commands()


if __name__ == "__main__":
    run()
