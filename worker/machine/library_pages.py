"""Gives pages of libraries back that this process has read: LanceDB and Lance alone keep a hundred megabytes of them.

The system keeps them in its cache of files. A page that is used again is mapped again within microseconds.
"""

from __future__ import annotations

import ctypes
import re
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

#: Bytes of a mapping below which giving its pages back is not worth a call.
_WORTH_BYTES = 100_000
_MADV_DONTNEED = 4
#: The line with which smaps begins a mapping: addresses, permissions, offset, device, inode, and the path, if any.
_BEGIN = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)", re.DOTALL)


class _Mapping(NamedTuple):
    start: int
    bytes_: int


def give_back_pages(*, settle_seconds: float = 0.0) -> None:
    """Unmap all pages of libraries that are as in their files. Does nothing where the system has no such call.

    Where other threads may load a library meanwhile, `settle_seconds` must be longer than the loader takes to divide
    its first mapping, which covers all of the library.
    """
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    # Linux names files without symbolic links
    packages = str(Path(sysconfig.get_path("platlib")).resolve())
    # a hardened system may hide the mappings
    with suppress(OSError):
        before = Path("/proc/self/maps").read_text()
        time.sleep(settle_seconds)
        for mapping in list(_unchanged(before, Path("/proc/self/smaps").read_text(), packages)):
            advise(mapping.start, mapping.bytes_, _MADV_DONTNEED)


def _unchanged(maps: str, smaps: str, packages: str) -> Iterator[_Mapping]:
    """The mappings of libraries that are in `maps` too, and of which no page differs from its file.

    Python never unloads its packages' libraries, so nothing else takes these addresses meanwhile.
    """
    loaded, mapping = set(map(partial(_library, packages), maps.splitlines())), None
    for line in smaps.splitlines():
        if _BEGIN.fullmatch(line):
            mapping = _library(packages, line)
        # relocated addresses are changes, which the file does not have
        elif mapping and mapping in loaded and line.split() == ["Anonymous:", "0", "kB"]:
            yield mapping


def _library(packages: str, line: str) -> _Mapping | None:
    """The mapping that a line begins, if it is large, of a library below `packages`, and nobody can write to it."""
    begin = _BEGIN.fullmatch(line)
    if begin is None:
        return None
    start, end = int(begin[1], 16), int(begin[2], 16)
    is_fixed = begin[3] in {"r--p", "r-xp"} and begin[4].startswith(f"{packages}/") and ".so" in begin[4]
    return _Mapping(start, end - start) if is_fixed and end - start >= _WORTH_BYTES else None
