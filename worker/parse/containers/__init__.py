"""The interface to files that contain files: listing their members with stated facts, and reading one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from schemas.errors import FileError
from schemas.reason import Reason
from worker.sandbox.members import MAX_PATH_CHARACTERS, TOO_MUCH, Member

#: Replaces NUL, which Postgres does not store.
_NUL_SHOWN = "\N{SYMBOL FOR NULL}"
#: Characters that UTF-8 cannot encode, except Python's replacements for bytes of a name that is not UTF-8.
LONE_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
#: The beginning of a path that Windows reads as a drive.
_DRIVE = re.compile("^([A-Za-z]):")


class Container(Protocol):
    """An opened container."""

    def members(self) -> Iterator[Member]:
        """Return all files, each path once. Raises `FileError` (`too_large`, `parse_failed`)."""
        ...

    def read(self, path: str, limit: int) -> bytes:
        """Return the bytes of a member. Raises `FileError` (`too_large` above `limit` bytes, `unreadable`, …)."""
        ...


#: Opens a container from its bytes. Raises `FileError`.
Opener = Callable[[bytes], Container]


def too_much() -> FileError:
    """Return the error for a container beyond the limits."""
    return FileError(Reason.TOO_LARGE, TOO_MUCH)


def damaged(detail: object) -> FileError:
    """Return the error for a container, or a member, that cannot be unpacked."""
    return FileError(Reason.PARSE_FAILED, f"The file cannot be unpacked ({detail}); unpack it and index its files.")


def cleaned(name: str) -> str:
    """Return a member's name as a relative path that stays inside the container; "" if nothing is left of it."""
    text = LONE_SURROGATE.sub("\ufffd", name).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    parts = text.replace("\\", "/").replace("\0", _NUL_SHOWN).split("/")
    path = _DRIVE.sub(r"\1_", "/".join(part for part in parts if part not in {"", ".", ".."}))
    if len(path) > MAX_PATH_CHARACTERS:
        mark = hashlib.sha256(path.encode()).hexdigest()[:16]
        path = f"{path[:MAX_PATH_CHARACTERS]}…{mark}"
    return path


def of_its_own(name: str, number: int, taken: Collection[str]) -> str:
    """Return a name that is unique among the members, whatever their stated names; `number` is the member's."""
    while name in taken:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem if dot else suffix} ({number}){dot}{suffix if dot else ''}"
    return name
