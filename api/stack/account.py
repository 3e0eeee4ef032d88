"""The unprivileged user that Postgres runs as if root starts it: one of Foldex's own, where it can be made."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from api.stack.processes import StackError

#: The user of Foldex's own, and its group.
NAME = "foldex"
#: Users of others, taken if that one cannot be made. Any program of theirs can read the database.
SUBSTITUTES = ("postgres", "nobody")
#: Commands that make the user, by the program that must be there: of most systems, and of busybox.
MAKERS: Mapping[str, Sequence[tuple[str, ...]]] = {
    "useradd": [
        ("useradd", "--system", "--user-group", "--no-create-home", "--home-dir=/", "--shell=/bin/false", NAME)
    ],
    "addgroup": [
        ("addgroup", "-S", NAME),
        ("adduser", "-S", "-D", "-H", "-h", "/", "-s", "/bin/false", "-G", NAME, NAME),
    ],
}
#: Where these programs are, also if the PATH is that of a user.
PLACES = os.pathsep.join((os.defpath, "/usr/sbin", "/sbin"))
#: Seconds that making the user may take, such as while another program holds the list of users.
MAKE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class DatabaseOwner:
    """A user that owns a database, and what to tell the operator of it."""

    uid: int
    gid: int
    note: str = ""


def choose(data: Path) -> DatabaseOwner:
    """The user of the database in `data`: its owner, or for a new one our own. Raises `StackError` without any.

    Postgres runs for no other user than the owner of its data.
    """
    own = _find(NAME)
    if data.exists() and data.stat().st_uid != 0:
        uid, gid = data.stat().st_uid, data.stat().st_gid
        return DatabaseOwner(uid, gid, "" if own and own.uid == uid else _note_of_other(uid, data.parent))
    reason = "" if own else _make()
    own = own or _find(NAME)
    if own:
        return own
    for name in SUBSTITUTES:
        found = _find(name)
        if found:
            note = (
                f"No user `{NAME}` could be made ({reason}). So the database belongs to the user `{name}`, and any "
                f"program of that user can read it: make a user `{NAME}` before the first start."
            )
            return DatabaseOwner(found.uid, found.gid, note)
    raise StackError(f"Postgres does not run as root, and no user `{NAME}` could be made ({reason}): make one.")


def _find(name: str) -> DatabaseOwner | None:
    with suppress(KeyError):
        user = pwd.getpwnam(name)
        # another name of root is the same user
        return DatabaseOwner(user.pw_uid, user.pw_gid) if user.pw_uid else None
    return None


def _make() -> str:
    """Make the user. Returns why that failed, or "". Another process may make it at the same time."""
    for program, commands in MAKERS.items():
        if shutil.which(program, path=PLACES):
            return next(filter(None, map(_failure, commands)), "")
    return "there is no useradd"


def _failure(command: tuple[str, ...]) -> str:
    """Why a command failed, or ""."""
    try:
        done = subprocess.run(
            command,
            env={"PATH": PLACES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAKE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = f"{done.stdout}\n{done.stderr}".split("\n")
    last = [line.strip() for line in lines if line.strip()][-1:]
    return "" if done.returncode == 0 else (last or [f"{command[0]} ended with {done.returncode}"])[0].rstrip(".")


def _note_of_other(uid: int, directory: Path) -> str:
    try:
        name = f"user `{pwd.getpwuid(uid).pw_name}`"
    except KeyError:
        name = f"unknown user {uid}"
    return (
        f"The database belongs to the {name}, and any program of that user can read it. To give it to a user of its "
        f"own, stop Foldex, make a user `{NAME}`, and run `chown -R {NAME}: {directory}`."
    )
