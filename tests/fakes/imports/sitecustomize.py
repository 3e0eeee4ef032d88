"""On a process's path, it notes what the process and its forks import: a line of `IMPORTS` for each module."""
# ruff: noqa: INP001 - Python finds it by its name on PYTHONPATH, not as part of a package

from __future__ import annotations

import os
import sys
from pathlib import Path

NOTED = {"litellm", "openai", "api.main", "worker.tasks.index"}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "import" and arguments[0] in NOTED:
        with Path(os.environ["IMPORTS"]).open("a", encoding="utf-8") as file:
            file.write(f"{arguments[0]}\n")


sys.addaudithook(_note)
