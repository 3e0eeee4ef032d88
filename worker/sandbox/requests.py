"""Requests of the API and the planner to helpers about tenants' bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.errors import FileError
from schemas.reason import Reason
from worker.sandbox.members import MAX_HEAD_BYTES, MAX_MEMBERS, TOO_MUCH, Member, Packing
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.protocol import Answer, Bounds

#: Seconds of processor time of any request, and more for each byte. An archive of 50 MB in bzip2, the slowest format,
#: takes 15 s to unpack to the limit. A small file must not delay others for long.
_SECONDS = 3.0
_SECONDS_PER_BYTE = 3e-7
#: Maximum bytes of a page as PNG, which are its pixels if nothing compresses them, and of the boxes on it.
_PICTURE_BYTES = 3_000_000
_PICTURE_HEAD_BYTES = 1 << 16
_PNG = b"\x89PNG"
_EDGES = 4
_NO_PICTURE = "Drawing the page takes too much time or memory; open the file itself."


def list_members(helpers: ProjectHelpers, name: str, packing: Packing, data: bytes) -> Sequence[Member]:
    """List the members of a container, which a helper keeps open under `name`. Raises `FileError` and `SourceBusy`."""
    head = {"operation": "members", "container": name, "packing": packing}
    bounds = _container_bounds(helpers, len(data))
    return _members(helpers.ask(head, data, bounds))


def read_member(helpers: ProjectHelpers, name: str, packing: Packing, data: bytes, path: str, limit: int) -> bytes:
    """Read a member of a container, which a helper then keeps open. Raises `FileError` and `SourceBusy`."""
    head = {"operation": "member", "container": name, "packing": packing, "path": path, "limit": limit}
    return bytes(helpers.ask(head, data, _container_bounds(helpers, len(data), limit)).payload)


def read_kept(helpers: ProjectHelpers, name: str, path: str, limit: int) -> bytes | None:
    """Read a member, as `read_member`, if a free helper keeps the container open; None otherwise."""
    head = {"operation": "member", "container": name, "path": path, "limit": limit}
    answer = helpers.ask_keeper(name, head, _container_bounds(helpers, 0, limit))
    return None if answer is None else bytes(answer.payload)


class Picture(NamedTuple):
    """A page as PNG with its size in pixels, and boxes [left, top, width, height] in shares of it."""

    png: bytes
    width: int
    height: int
    boxes: list[list[float]]


def picture_of(helpers: ProjectHelpers, data: bytes, page: int, passage: str) -> Picture:
    """Return a page of a PDF, counted from 1, with the lines of a passage. Raises `FileError` and `SourceBusy`."""
    head = {"operation": "picture", "page": page, "passage": passage}
    seconds = helpers.at_most(_SECONDS + _SECONDS_PER_BYTE * len(data))
    memory, patience = helpers.pool.memory_bytes, helpers.pool.patience
    bounds = Bounds(seconds, memory, _PICTURE_BYTES, patience, _NO_PICTURE, _NO_PICTURE, _PICTURE_HEAD_BYTES)
    answer = helpers.ask(head, data, bounds)
    try:
        boxes = [[min(1.0, max(0.0, float(edge))) for edge in box] for box in answer.head["boxes"]]
        size = int(answer.head["width"]), int(answer.head["height"])
    except (KeyError, TypeError, ValueError):
        raise FileError(Reason.CRASHED) from None
    if not answer.payload.startswith(_PNG) or any(len(box) != _EDGES for box in boxes):
        raise FileError(Reason.CRASHED)
    return Picture(bytes(answer.payload), *size, boxes)


def _container_bounds(helpers: ProjectHelpers, size: int, member_bytes: int = 0) -> Bounds:
    seconds = helpers.at_most(_SECONDS + _SECONDS_PER_BYTE * (size + member_bytes))
    return Bounds(
        seconds, helpers.pool.memory_bytes, member_bytes, helpers.pool.patience, TOO_MUCH, TOO_MUCH, MAX_HEAD_BYTES
    )


def _members(answer: Answer) -> Sequence[Member]:
    """Return the members that a helper lists. Raises `FileError` for impossible ones: the helper was compromised."""
    rows = answer.head.get("members")
    if not isinstance(rows, list) or len(rows) > MAX_MEMBERS:
        raise FileError(Reason.CRASHED)
    return [_member(row) for row in rows]


def _member(row: Any) -> Member:
    try:
        path, size, reason = row
        parts = path.split("/")
        if "\0" not in path and not {"", ".", ".."} & {*parts} and size >= 0:
            return Member(path, int(size), Reason(reason) if reason else None)
    except (AttributeError, TypeError, ValueError):
        pass
    raise FileError(Reason.CRASHED)
