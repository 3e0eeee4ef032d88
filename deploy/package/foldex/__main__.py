"""Runs the command line: `foldex`, or `python -m foldex`."""

from __future__ import annotations

import sys
from pathlib import Path


def run() -> None:
    """Run the command line with the packages that lie below this one, or in a checkout beside it."""
    here = Path(__file__).resolve().parent
    if (here / "api").is_dir():
        sys.path.insert(0, str(here))
    try:
        from api.cli.commands import run as run_commands

        run_commands()
    except KeyboardInterrupt:
        # Ctrl-C while modules are loaded
        sys.exit(130)


if __name__ == "__main__":
    run()
