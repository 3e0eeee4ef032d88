"""The memory of this machine, or of its container."""

from __future__ import annotations

import os
from pathlib import Path

#: Limit of the container that this process runs in, by cgroup v2 and by v1: a number of bytes, or `max`.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_bytes(limits: tuple[Path, ...] = _LIMITS) -> int:
    """Return the memory in bytes: the machine's, or the container's limit if that is lower."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(limit for limit in map(_limit, limits) if limit)])


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or `max`
        return None
