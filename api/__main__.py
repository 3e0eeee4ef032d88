"""Runs the command line as `python -m api`."""

from __future__ import annotations

from api.cli.commands import run

if __name__ == "__main__":
    run()
