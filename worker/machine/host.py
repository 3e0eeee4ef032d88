"""Which machine this is. Node names, the registry of hosts, and messages name it in one way."""

from __future__ import annotations

import functools
import re
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

#: Files of which the first holds the id that the system made when it was installed. Images may lack it, or share it.
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
#: Bytes of such a file that count.
MAX_MACHINE_ID = 64
#: Characters of a host's name that are shown, Linux's own limit.
MAX_NAME = 64
#: Hex digits of a host's id.
ID_DIGITS = 12

#: Characters that are shown of the name of a process, which holds that of its host.
MAX_PROCESS_NAME = 120
#: What a name may not hold where it is shown: names in a network, and of Celery's nodes, are made of the rest.
_FOREIGN = re.compile(r"[^A-Za-z0-9.@_-]")
#: A bit of a network address that `uuid.getnode` sets if it found none and made one up for this process.
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
    """The host of this process."""
    name = socket.gethostname()
    address = uuid.getnode()
    parts = (_machine_id(), name, "" if address & _MADE_UP else f"{address:012x}")
    digest = sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()
    return Host(plain_name(name), digest[:ID_DIGITS])


def plain_name(name: str) -> str:
    """A host's name as it can be shown anywhere: bounded, and without control characters."""
    return plain(name[:MAX_NAME]) or "unnamed"


def plain(text: str) -> str:
    """Foreign text as a name that can be shown anywhere."""
    return _FOREIGN.sub("_", text[:MAX_PROCESS_NAME])


def _machine_id() -> str:
    for path in MACHINE_IDS:
        with suppress(OSError), path.open("rb") as file:
            return file.read(MAX_MACHINE_ID).strip().hex()
    return ""
