"""Keeps what a process knows and writes from other programs and users of the machine."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_DUMPABLE = 4
#: Everything but the owner's rights.
OTHERS = 0o077
#: What an installation keeps in its directory. One that holds more is somebody else's, too.
_OURS = {"lancedb", "log", "objects", "postgres", "redis", "run"}


def keep_private() -> None:
    """Close this process's memory and environment to other processes of its user, and its new files to other users."""
    os.umask(OTHERS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def close_home(home: Path) -> None:
    """Close an installation's directory to other users, as far as it is this user's.

    One that holds more than the installation's own stays as it is.
    """
    with suppress(OSError):
        found = {entry.name for entry in home.iterdir()}
        for name in found & (_OURS - {"postgres"}):
            _change(home / name, 0o700)
        for place in (home / "postgres", *([home] if found <= _OURS else [])):
            _change(place, passable())


def passable() -> int:
    """Mode of a directory on the way to Postgres' data: that server runs as another user where we are root."""
    return 0o711 if os.geteuid() == 0 else 0o700


def _change(place: Path, mode: int) -> None:
    with suppress(OSError):
        if stat.S_IMODE(place.stat().st_mode) != mode:
            place.chmod(mode)


def names_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own, for programs on it alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
