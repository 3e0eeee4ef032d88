"""Protects a process's memory and files from other programs and users of the machine."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import stat
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal

from worker.machine import directory_mark

_PR_SET_DUMPABLE = 4
#: Mode bits of everyone except the owner.
OTHERS = 0o077
#: Entries of an installation's directory, besides vector stores'. A directory with other entries has another use, too.
_OWN_ENTRIES = frozenset({"log", "objects", "postgres", "redis", "run", directory_mark.FILE})


def keep_private(debuggers: Literal["on", "off"] = "off") -> None:
    """Protect this process's memory and environment from its user's other processes, and new files from other users.

    With `debuggers` on, processes of the same user may attach to it.
    """
    os.umask(OTHERS)
    if sys.platform == "linux" and debuggers == "off":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def close_home(home: Path, stores: frozenset[str]) -> None:
    """Close an installation's directory to other users, as far as this user owns it.

    `stores` are the directories of vector stores in it. A directory that also holds foreign entries keeps its mode.
    """
    own = _OWN_ENTRIES | stores
    with suppress(OSError):
        entries = {entry.name for entry in home.iterdir()}
        for name in entries & (own - {"postgres", directory_mark.FILE}):
            _change(home / name, 0o700)
        for directory in (home / "postgres", *([home] if entries <= own else [])):
            _change(directory, passable())


def passable() -> int:
    """Mode of a directory on the path to Postgres' data. If we are root, the server runs as another user."""
    return 0o711 if os.geteuid() == 0 else 0o700


def _change(directory: Path, mode: int) -> None:
    with suppress(OSError):
        if stat.S_IMODE(directory.stat().st_mode) != mode:
            directory.chmod(mode)


@lru_cache(64)  # called for every request, mostly about the same two
def names_loopback(host: str) -> bool:
    """Return whether a host's name or address is loopback, so that only programs on this machine reach it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
