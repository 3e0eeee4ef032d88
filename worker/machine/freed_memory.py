"""Gives memory that work has freed back to the machine."""

from __future__ import annotations

import ctypes
import gc
import sys


def give_back() -> None:
    """Return freed memory to the machine: the C library and Arrow keep it otherwise. Takes some tens of milliseconds.

    Where the C library has no such call, only Arrow's memory and that of garbage goes back.
    """
    # what refers to itself is memory that nothing uses, until Python looks for it
    gc.collect()
    # without Arrow's import, its pool holds nothing
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
