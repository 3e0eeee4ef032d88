"""Containers, such as archives and mails: their limits, and their members as listed by a helper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from schemas.reason import Reason

#: Maximum number of members of a container.
MAX_MEMBERS = 10_000
#: Maximum total unpacked bytes of a container's members. A small archive can claim petabytes.
MAX_INFLATED_BYTES = 500_000_000
#: Maximum characters of a member's path. Longer ones are truncated, and a hash keeps them distinct.
MAX_PATH_CHARACTERS = 400
#: Maximum bytes of an answer's head: four bytes for each character of a path, and the syntax of JSON.
MAX_HEAD_BYTES = 4 * MAX_MEMBERS * (MAX_PATH_CHARACTERS + 100)
#: Reasons why a container is not opened.
TOO_MUCH = (
    f"The container has more than {MAX_MEMBERS:,} files, or more than {MAX_INFLATED_BYTES:,} bytes once unpacked, or "
    "takes too long to open; unpack it and index its files."
)
#: The packing of a container.
Packing = Literal["zip", "tar", "mail", "outlook"]


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a container, with its unpacked size in bytes. `reason` is set if it cannot be read."""

    path: str
    size: int
    reason: Reason | None = None
