"""Whether the folder at a path of this machine is the one that another machine indexed.

Machines that share a folder see the same times at which its files changed, and no program can set those. A copy has
others, and an older state of the same disk has earlier ones. Devices differ between machines, and inodes may be equal
by chance.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from worker.sources.local import LocalFolder
from worker.sources.local_directories import OpenDirectories
from worker.state.index.local_folders import FolderView

#: Files that are compared: the newest ones, which an older state lacks, and others.
NEWEST = OTHERS = 32
#: Where Linux tells which start of a kernel this is.
KERNEL_ID = Path("/proc/sys/kernel/random/boot_id")
#: Numbers in the stamp of a file: see `LocalFolder`.
_NUMBERS = 4


class _File(NamedTuple):
    """When a file was changed last, as the machine saw that indexed it."""

    changed_ns: int
    key: bytes


def view_of(folder: LocalFolder) -> FolderView:
    """What this machine sees of a folder. Raises `SourceError`."""
    with folder.open_directories().closing() as directories:
        info = os.fstat(directories.handle(()))
    kernel = _kernel()
    return FolderView(str(info.st_ino), kernel and f"{kernel} {info.st_dev}", info.st_ctime_ns)


def is_same(folder: LocalFolder, known: FolderView, stamps: Sequence[tuple[bytes, str]]) -> bool:
    """Whether a folder is the one of which another machine saw `known`, and the files with these keys and stamps.

    It must have a file that has not changed since, or not have changed itself, and nothing of it may be older than the
    other machine saw it. To two containers of one kernel, one inode is one folder. Raises `SourceError`.
    """
    view = view_of(folder)
    if view.place is not None and view[:2] == known[:2]:
        return True
    is_same_so_far = (view.inode, view.changed_ns) == (known.inode, known.changed_ns)
    with folder.open_directories().closing() as directories:
        for file in _chosen(stamps):
            changed_ns = _changed_ns(directories, file.key)
            if changed_ns is None:
                # who removes a file changes the directory in which it was
                if _changed_above(directories, file.key) < file.changed_ns:
                    return False
            elif changed_ns < file.changed_ns:
                return False
            else:
                is_same_so_far |= changed_ns == file.changed_ns
    return is_same_so_far


@functools.cache
def _kernel() -> str | None:
    """An id that the kernel has until it starts again; None where it tells none."""
    with suppress(OSError):
        return KERNEL_ID.read_text().strip()
    return None


def _chosen(stamps: Sequence[tuple[bytes, str]]) -> list[_File]:
    files = [_File(changed_ns, key) for key, stamp in stamps if (changed_ns := _changed_in(stamp)) is not None]
    files.sort(reverse=True)
    others = files[NEWEST:]
    return files[:NEWEST] + others[:: max(1, len(others) // OTHERS)][:OTHERS]


def _changed_in(stamp: str) -> int | None:
    """The time of the last change in the stamp of a file; None in another one, such as that of an archive's member."""
    numbers = stamp.split("-")
    return int(numbers[2]) if len(numbers) == _NUMBERS and all(map(str.isdecimal, numbers)) else None


def _changed_ns(directories: OpenDirectories, key: bytes) -> int | None:
    try:
        return directories.info(key).st_ctime_ns
    except OSError:
        return None


def _changed_above(directories: OpenDirectories, key: bytes) -> int:
    """When the nearest directory above a file that is gone was changed."""
    parts = tuple(key.split(b"/"))
    for depth in range(len(parts) - 1, 0, -1):
        try:
            return os.fstat(directories.handle(parts[:depth])).st_ctime_ns
        except OSError:
            continue
    return os.fstat(directories.handle(())).st_ctime_ns
