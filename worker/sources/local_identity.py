"""Detects whether the folder at a path of this machine is the one that another machine indexed.

Machines that share a folder see the same change times of its files, and no program can set these. A copy has other
times, and an older state of the same disk has earlier ones. Devices differ between machines, and inodes may be equal by
chance.
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

#: Number of files that are compared: the newest ones, which an older state lacks, and others.
NEWEST = OTHERS = 32
#: The file with Linux' id of this boot.
KERNEL_ID = Path("/proc/sys/kernel/random/boot_id")
#: Numbers in the stamp of a file: see `LocalFolder`.
_NUMBERS = 4


class _File(NamedTuple):
    """The last change time of a file, as the indexing machine saw it."""

    changed_ns: int
    key: bytes


def view_of(folder: LocalFolder) -> FolderView:
    """Return the identity of a folder on this machine. Raises `SourceError`."""
    with folder.open_directories().closing() as directories:
        info = os.fstat(directories.handle(()))
    kernel = _kernel()
    return FolderView(str(info.st_ino), kernel and f"{kernel} {info.st_dev}", info.st_ctime_ns)


def is_same(folder: LocalFolder, known: FolderView, stamps: Sequence[tuple[bytes, str]]) -> bool:
    """Return whether a folder is the one that another machine saw as `known`, with these keys and stamps of files.

    Either a file or the folder itself must be unchanged since then, and no change time may be older than the other
    machine saw it. Two containers of one kernel see one folder in one inode. Raises `SourceError`.
    """
    view = view_of(folder)
    if view.place is not None and view[:2] == known[:2]:
        return True
    is_same_so_far = (view.inode, view.changed_ns) == (known.inode, known.changed_ns)
    with folder.open_directories().closing() as directories:
        for file in _chosen(stamps):
            changed_ns = _changed_ns(directories, file.key)
            if changed_ns is None:
                # removing a file changes its directory
                if _changed_above(directories, file.key) < file.changed_ns:
                    return False
            elif changed_ns < file.changed_ns:
                return False
            else:
                is_same_so_far |= changed_ns == file.changed_ns
    return is_same_so_far


@functools.cache
def _kernel() -> str | None:
    """Return the kernel's id of this boot; None if it has none."""
    with suppress(OSError):
        return KERNEL_ID.read_text().strip()
    return None


def _chosen(stamps: Sequence[tuple[bytes, str]]) -> list[_File]:
    files = [_File(changed_ns, key) for key, stamp in stamps if (changed_ns := _changed_in(stamp)) is not None]
    files.sort(reverse=True)
    others = files[NEWEST:]
    return files[:NEWEST] + others[:: max(1, len(others) // OTHERS)][:OTHERS]


def _changed_in(stamp: str) -> int | None:
    """Return the change time in the stamp of a file; None for another stamp, such as an archive member's."""
    numbers = stamp.split("-")
    return int(numbers[2]) if len(numbers) == _NUMBERS and all(map(str.isdecimal, numbers)) else None


def _changed_ns(directories: OpenDirectories, key: bytes) -> int | None:
    try:
        return directories.info(key).st_ctime_ns
    except OSError:
        return None


def _changed_above(directories: OpenDirectories, key: bytes) -> int:
    """Return the change time of the nearest existing directory above a file that is gone."""
    parts = tuple(key.split(b"/"))
    for depth in range(len(parts) - 1, 0, -1):
        try:
            return os.fstat(directories.handle(parts[:depth])).st_ctime_ns
        except OSError:
            continue
    return os.fstat(directories.handle(())).st_ctime_ns
