"""Containers, such as archives and mails: their limits, and their members as a helper lists them.

A member's path continues the container's: `mail.eml/report.pdf`. Containers within containers are not opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from schemas.reason import Reason

#: Most members of a container.
MAX_MEMBERS = 10_000
#: Most unpacked bytes of all members of a container together. A small archive can claim petabytes.
MAX_INFLATED_BYTES = 500_000_000
#: Most characters of a member's path. Longer ones are cut, and a hash keeps them apart.
MAX_PATH_CHARACTERS = 400
#: Most bytes of the head of an answer: four bytes for each character of a path, and the syntax of JSON.
MAX_HEAD_BYTES = 4 * MAX_MEMBERS * (MAX_PATH_CHARACTERS + 100)
#: Why a container is not opened.
TOO_MUCH = (
    f"The container has more than {MAX_MEMBERS:,} files, or more than {MAX_INFLATED_BYTES:,} bytes once unpacked, or "
    "takes too long to open; unpack it and index its files."
)
#: How a container is packed.
Packing = Literal["zip", "tar", "mail", "outlook"]


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a container, with its unpacked size in bytes. `reason` is set if it cannot be read."""

    path: str
    size: int
    reason: Reason | None = None
