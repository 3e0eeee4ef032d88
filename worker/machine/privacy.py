"""Protects a process's memory and files from other programs and users of the machine."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal

_PR_SET_DUMPABLE = 4
#: Mode bits of everyone but the owner.
OTHERS = 0o077
#: Entries of an installation's directory. A directory with other entries is also used by something else.
_OURS = {"lancedb", "log", "objects", "postgres", "redis", "run"}


def keep_private(debuggers: Literal["on", "off"] = "off") -> None:
    """Protect this process's memory and environment from its user's other processes, and new files from other users.

    With `debuggers` on, processes of the same user may attach to it.
    """
    os.umask(OTHERS)
    if sys.platform == "linux" and debuggers == "off":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def close_home(home: Path) -> None:
    """Close an installation's directory to other users, as far as this user owns it.

    A directory that also holds foreign entries keeps its mode.
    """
    with suppress(OSError):
        found = {entry.name for entry in home.iterdir()}
        for name in found & (_OURS - {"postgres"}):
            _change(home / name, 0o700)
        for place in (home / "postgres", *([home] if found <= _OURS else [])):
            _change(place, passable())


def passable() -> int:
    """Mode of a directory on the path to Postgres' data. If we are root, the server runs as another user."""
    return 0o711 if os.geteuid() == 0 else 0o700


def _change(place: Path, mode: int) -> None:
    with suppress(OSError):
        if stat.S_IMODE(place.stat().st_mode) != mode:
            place.chmod(mode)


def names_loopback(host: str) -> bool:
    """Whether a host's name or address is loopback, so that only programs on this machine reach it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
