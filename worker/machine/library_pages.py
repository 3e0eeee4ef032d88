"""Gives pages of libraries back that this process has read: LanceDB and Lance alone keep a hundred megabytes of them.

The system keeps them in its cache of files. A page that is used again is mapped again within microseconds.
"""

from __future__ import annotations

import ctypes
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: Bytes of a mapping below which giving its pages back is not worth a call.
_WORTH_BYTES = 100_000
_MADV_DONTNEED = 4
#: The line with which smaps begins a mapping: addresses, permissions, offset, device, inode, and the path, if any.
_BEGIN = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)")


class _Mapping(NamedTuple):
    start: int
    bytes_: int


def give_back_pages() -> None:
    """Unmap all pages of libraries that are as in their files. Does nothing where the system has no such call."""
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    # Linux names files without symbolic links
    packages = str(Path(sysconfig.get_path("platlib")).resolve())
    # a hardened system may hide the mappings
    with suppress(OSError):
        for mapping in list(_unchanged(Path("/proc/self/smaps").read_text(), packages)):
            advise(mapping.start, mapping.bytes_, _MADV_DONTNEED)


def _unchanged(smaps: str, packages: str) -> Iterator[_Mapping]:
    """Large mappings of libraries below `packages` that nobody can write, and of which no page differs from its file.

    Python never unloads its packages' libraries, so nothing else takes these addresses meanwhile.
    """
    mapping = None
    for line in smaps.splitlines():
        if begin := _BEGIN.fullmatch(line):
            start, end = int(begin[1], 16), int(begin[2], 16)
            is_fixed = begin[3] in {"r--p", "r-xp"} and begin[4].startswith(f"{packages}/") and ".so" in begin[4]
            mapping = _Mapping(start, end - start) if is_fixed and end - start >= _WORTH_BYTES else None
        # relocated addresses are changes, which the file does not have
        elif mapping and line.split() == ["Anonymous:", "0", "kB"]:
            yield mapping
