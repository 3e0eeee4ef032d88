"""The record of an installation's data and of its running stack. Imports the standard library only."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

#: The directory in which `python -m` finds the packages.
ROOT = Path(__file__).resolve().parents[2]


def installation_home() -> Path:
    """The directory of all data: FOLDEX_HOME, else `.foldex` in the checkout, else `.foldex` of the user."""
    given = os.environ.get("FOLDEX_HOME")
    if given:
        return Path(given).absolute()
    is_checkout = (ROOT / "pyproject.toml").is_file()
    return (ROOT if is_checkout else Path.home()) / ".foldex"


def environment(home: Path) -> dict[str, str]:
    """The `RunningStack.env` of the stack that runs in `home`, in any process; empty if none runs."""
    try:
        return dict(json.loads(record_file(home.resolve()).read_text())) if owner(home) else {}
    except FileNotFoundError:
        return {}


def owner(home: Path) -> int | None:
    """The pid of the process that holds the stack's lock in `home`; None if no stack runs there."""
    try:
        with lock_file(home.resolve()).open("rb") as lock:
            return None if try_lock(lock.fileno()) else int(lock.read() or 0)
    except FileNotFoundError:
        return None


def has_run(home: Path) -> bool:
    """Whether a stack in `home` may hold data: it has run there, or uses a database of its own."""
    return lock_file(home.resolve()).exists() or bool(os.environ.get("DATABASE_URL"))


def url_of(env: dict[str, str]) -> str:
    """The address of a stack's API, without a trailing slash."""
    return f"http://{env['API_HOST']}:{env['API_PORT']}"


def record_file(home: Path) -> Path:
    """The file that holds the environment of a running stack."""
    return home / "run" / "stack.json"


def lock_file(home: Path) -> Path:
    """The file that a running stack locks. It holds the pid of the stack."""
    return home / "run" / "stack.lock"


def try_lock(descriptor: int) -> bool:
    """Take the lock, unless any process holds it. Returns whether it was taken."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
