"""Lists and reads containers, and keeps those open whose members may be requested next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from schemas.errors import FileError
from worker.parse.containers import Container, Opener, damaged
from worker.parse.containers.mail import open_mail
from worker.parse.containers.outlook import open_outlook
from worker.parse.containers.tar import open_tar
from worker.parse.containers.zip import open_zip
from worker.parse.limits import Limits
from worker.sandbox.members import Packing
from worker.sandbox.protocol import Head

OPENERS: dict[Packing, Opener] = {"zip": open_zip, "tar": open_tar, "mail": open_mail, "outlook": open_outlook}
#: Maximum number of containers kept open, and the share of memory for their bytes.
MAX_KEPT = 4
_KEPT_SHARE = 1 / 8

Value = TypeVar("Value")


class _Kept(NamedTuple):
    opened: Container
    size: int


_kept: OrderedDict[str, _Kept] = OrderedDict()


def members(ask: Head, data: bytes, limits: Limits) -> tuple[Head, bytes]:
    """Open a container, and list its members."""
    opened = _open(ask, data, limits)
    rows = _guard(lambda: [(member.path, member.size, member.reason) for member in opened.members()])
    return {"members": rows, "kept": [*_kept]}, b""


def member(ask: Head, data: bytes, limits: Limits) -> tuple[Head, bytes]:
    """Read a member: of the container in `data`, or without a packing of one that is kept open."""
    if "packing" in ask:
        opened = _open(ask, data, limits)
    elif ask["container"] in _kept:
        _kept.move_to_end(ask["container"])
        opened = _kept[ask["container"]].opened
    else:
        return {"missing": True, "kept": [*_kept]}, b""
    content = _guard(lambda: opened.read(ask["path"], ask["limit"]))
    return {"kept": [*_kept]}, content


def _open(ask: Head, data: bytes, limits: Limits) -> Container:
    """Return the container, which stays open under its name: members are mostly read one after the other."""
    _kept.pop(ask["container"], None)
    room = limits.memory_bytes * _KEPT_SHARE - len(data)
    while _kept and (len(_kept) >= MAX_KEPT or sum(kept.size for kept in _kept.values()) > room):
        _kept.popitem(last=False)
    opened = _guard(lambda: OPENERS[ask["packing"]](data))
    _kept[ask["container"]] = _Kept(opened, len(data))
    return opened


def _guard(act: Callable[[], Value]) -> Value:
    """Return the result of `act`. Any library exception on malformed bytes becomes an outcome of the container."""
    try:
        return act()
    except (FileError, MemoryError):
        raise
    except Exception as error:  # libraries raise all kinds of exceptions on damaged containers
        raise damaged(type(error).__name__) from error
