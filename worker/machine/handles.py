"""Handles of directories and files, opened without following a link anywhere on the path.

A checked path may lead elsewhere when it is used, because somebody swapped a link in. A handle always refers to the
same file. So callers open a place first, and then check and use the handle.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

#: Flags to open a directory that is listed.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: Flags to open a regular file. They never wait for a pipe or a device.
REGULAR_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
#: Bytes per read call.
_PIECE_BYTES = 1 << 18
#: Flags to open a directory on the way, which may deny listing.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW

#: The system call, which has the same number on every architecture, and its ways to resolve a path.
_OPENAT2 = 437
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
#: Bytes of a path for one system call, with the NUL at its end.
_MAX_PATH = 4096
#: Errors of a kernel, or of a container's filter, that does not offer the call.
_NOT_OFFERED = {errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EINVAL}

#: Errors of a process or machine that has no more handles.
OUT_OF_HANDLES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

#: Device and inode of a directory, whatever its path.
Identity = tuple[int, int]


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_real(path: bytes, flags: int = DIRECTORY) -> int:
    """Open an absolute path. Raises `OSError` if it contains a link. The caller closes the handle."""
    with closing(os.open(b"/", _PASS)) as top:
        return open_beneath(top, [part for part in path.split(b"/") if part], flags)


def open_beneath(start: int, parts: Sequence[bytes], flags: int = DIRECTORY) -> int:
    """Open `parts` below the directory `start`, as `open_real` does."""
    path = b"/".join(parts)
    if any(part in {b"", b".", b".."} or b"/" in part or b"\0" in part for part in parts):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    if not parts:
        return os.open(b".", flags, dir_fd=start)
    if len(parts) > 1 and len(path) < _MAX_PATH and has_openat2():
        try:
            return open_at_once(start, path, flags)
        except BlockingIOError:  # a part of the path was renamed, and the kernel does not know whether that matters
            pass
    return open_by_steps(start, parts, flags)


@cache
def has_openat2() -> bool:
    """Return whether the system opens a path without links in one call. Linux does so since 5.6."""
    if sys.platform != "linux":
        return False
    try:
        with closing(os.open(b"/", _PASS)) as top:
            os.close(open_at_once(top, b".", DIRECTORY))
    except OSError as error:
        if error.errno in _NOT_OFFERED:
            return False
        raise
    return True


def open_at_once(start: int, path: bytes, flags: int) -> int:
    """Open a relative path by one call."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    while True:
        handle: int = _libc().syscall(_OPENAT2, start, path, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
        if handle >= 0:
            return handle
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


def open_by_steps(start: int, parts: Sequence[bytes], flags: int) -> int:
    """Open a relative path by one call for each of its parts."""
    *folders, name = parts
    opened: list[int] = []
    try:
        for folder in folders:
            opened.append(os.open(folder, _PASS, dir_fd=opened[-1] if opened else start))
            if len(opened) > 1:
                os.close(opened.pop(0))
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=opened[-1] if opened else start)
    finally:
        for handle in opened:
            os.close(handle)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def identity(handle: int) -> Identity:
    """Return the identity of an opened directory, which does not depend on its name or mount."""
    return identity_of(os.fstat(handle))


def identity_of(info: os.stat_result) -> Identity:
    """See `identity`."""
    return info.st_dev, info.st_ino


def lies_in(handle: int, places: Collection[Identity]) -> bool:
    """Return whether an opened directory is one of these, or lies in one."""
    top = identity_of(os.stat(b"/"))  # noqa: PTH116 - a Path is of no use here
    here = os.open(b".", _PASS, dir_fd=handle)
    try:
        while (found := identity(here)) not in places:
            above = os.open(b"..", _PASS, dir_fd=here)
            os.close(here)
            here = above
            if found == top == identity(here):
                return False
        return True
    finally:
        os.close(here)


def path_of_handle(handle: int) -> str:
    """Return a path to an open handle for a child of this process, valid until the child starts its program."""
    if sys.platform == "darwin":
        import fcntl

        path = fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024))
        return os.fsdecode(path.rstrip(b"\0"))
    return f"/proc/self/fd/{handle}"


def read_up_to(handle: int, limit: int) -> bytes:
    """Return the next bytes of a file, at most `limit`; fewer only at its end."""
    pieces, remaining = [], limit
    while remaining and (piece := os.read(handle, min(remaining, _PIECE_BYTES))):
        pieces.append(piece)
        remaining -= len(piece)
    return b"".join(pieces)


@contextmanager
def closing(handle: int) -> Iterator[int]:
    """Close the handle at the end."""
    try:
        yield handle
    finally:
        os.close(handle)


def sync_directory(directory: Path) -> None:
    """Write the entries of a directory to its disk, so that they survive a power failure. Raises `OSError`."""
    with closing(os.open(directory, os.O_RDONLY)) as handle:
        os.fsync(handle)
