"""Returns freed memory to the machine."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

#: Seconds without work after which memory is returned. Work that follows at once would take it again.
IDLE_SECONDS = 5.0
#: Size in bytes above which a block is returned as soon as it is freed.
LARGE_BLOCK_BYTES = 1 << 20
#: The number of glibc's option.
_M_MMAP_THRESHOLD = -3


class IdleProcess:
    """Returns memory once the process has been idle for `IDLE_SECONDS` after work. One thread works."""

    def __init__(self) -> None:
        self._timer: Timer | None = None

    @contextmanager
    def work(self) -> Iterator[None]:
        """Mark work that uses much memory."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            yield
        finally:
            self._timer = Timer(IDLE_SECONDS, give_back)
            self._timer.daemon = True
            self._timer.start()


def keep_little() -> None:
    """Let the C library return large blocks when they are freed. Otherwise it keeps them in a heap for each thread."""
    if set_option := getattr(ctypes.CDLL(None), "mallopt", None):
        set_option(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def give_back() -> None:
    """Return freed memory to the machine, because the C library and Arrow would keep it. Takes some 10 ms.

    If the C library has no such call, only Arrow's memory and garbage are returned.
    """
    # reference cycles keep memory until Python collects them
    gc.collect()
    # without Arrow's import, its pool holds nothing
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
