"""The identity of this machine. Node names, the registry of hosts, and messages all use it."""

from __future__ import annotations

import functools
import re
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

#: Files with the id that the system created when it was installed; the first one counts. Images may lack or share it.
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
#: Bytes that are read of such a file.
MAX_MACHINE_ID = 64
#: Maximum characters of a host's name in output, Linux's own limit.
MAX_NAME = 64
#: Hex digits of a host's id.
ID_DIGITS = 12

#: Maximum characters of a process name in output, which includes its host's name.
MAX_PROCESS_NAME = 120
#: Characters that a displayed name may not contain: network names and Celery's node names use the others.
_FOREIGN = re.compile(r"[^A-Za-z0-9.@_-]")
#: A bit of a network address that `uuid.getnode` sets if it found none and invented one for this process.
_MADE_UP = 1 << 40


@dataclass(frozen=True, slots=True)
class Host:
    """A machine or a container.

    `id` is the same in all its processes. It differs between two machines of one name.
    """

    name: str
    id: str

    def __str__(self) -> str:
        return f"{self.name}-{self.id}"


@functools.cache
def this_host() -> Host:
    """Return the host of this process."""
    name = socket.gethostname()
    address = uuid.getnode()
    parts = (_machine_id(), name, "" if address & _MADE_UP else f"{address:012x}")
    digest = sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()
    return Host(plain_name(name), digest[:ID_DIGITS])


def plain_name(name: str) -> str:
    """Return a host's name for output: bounded, and without control characters."""
    return plain(name[:MAX_NAME]) or "unnamed"


def plain(text: str) -> str:
    """Return untrusted text as a name for output."""
    return _FOREIGN.sub("_", text[:MAX_PROCESS_NAME])


def _machine_id() -> str:
    for path in MACHINE_IDS:
        with suppress(OSError), path.open("rb") as file:
            return file.read(MAX_MACHINE_ID).strip().hex()
    return ""
