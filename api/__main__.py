"""`python -m api` is the command line."""

from __future__ import annotations

from api.cli.commands import run

if __name__ == "__main__":
    run()
