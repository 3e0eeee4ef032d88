"""The interface to files that contain files: listing their members with what they say of them, and reading one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from schemas.errors import FileError
from schemas.reason import Reason
from worker.sandbox.members import MAX_PATH_CHARACTERS, TOO_MUCH, Member

#: Stands for NUL, which Postgres does not store.
_NUL_SHOWN = "\N{SYMBOL FOR NULL}"
#: What UTF-8 cannot hold, besides the bytes that Python keeps of a name that is not UTF-8.
LONE_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
#: What Windows takes for a drive at the beginning of a path.
_DRIVE = re.compile("^([A-Za-z]):")


class Container(Protocol):
    """An opened container."""

    def members(self) -> Iterator[Member]:
        """All files, each path once. Raises `FileError` (`too_large`, `parse_failed`)."""
        ...

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a member. Raises `FileError` (`too_large` above `limit` bytes, `unreadable`, …)."""
        ...


#: Opens a container from its bytes. Raises `FileError`.
Opener = Callable[[bytes], Container]


def too_much() -> FileError:
    """The error for a container beyond the limits."""
    return FileError(Reason.TOO_LARGE, TOO_MUCH)


def damaged(detail: object) -> FileError:
    """The error for a container, or a member, that cannot be unpacked."""
    return FileError(Reason.PARSE_FAILED, f"The file cannot be unpacked ({detail}); unpack it and index its files.")


def cleaned(name: str) -> str:
    """A member's name as a relative path that leads nowhere else; "" if nothing is left of it."""
    text = LONE_SURROGATE.sub("\ufffd", name).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    parts = text.replace("\\", "/").replace("\0", _NUL_SHOWN).split("/")
    path = _DRIVE.sub(r"\1_", "/".join(part for part in parts if part not in {"", ".", ".."}))
    if len(path) > MAX_PATH_CHARACTERS:
        mark = hashlib.sha256(path.encode()).hexdigest()[:16]
        path = f"{path[:MAX_PATH_CHARACTERS]}…{mark}"
    return path


def of_its_own(name: str, number: int, taken: Collection[str]) -> str:
    """A name that no other member has, whatever the container calls them; `number` is the member's."""
    while name in taken:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem if dot else suffix} ({number}){dot}{suffix if dot else ''}"
    return name
