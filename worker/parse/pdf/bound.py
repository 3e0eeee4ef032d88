"""Binds functions of PDFium for thousands of short calls.

Such a call takes a quarter of the time of one through pypdfium2: ctypes checks and converts no argument, and Python's
lock is kept. So a pointer must be one of ctypes, and an `int` is C's int.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

#: Left, bottom, right and top of what a page shows, in points.
Box = tuple[float, float, float, float]


def bound(function: Any) -> Callable[..., Any]:
    """A function of `pypdfium2.raw` without its checks."""
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return ctypes.PYFUNCTYPE(function.restype)(address)


def pointers(numbers: Any) -> tuple[Any, ...]:
    """Pointers to the numbers of an array, as arguments."""
    size = ctypes.sizeof(numbers) // len(numbers)
    return tuple(ctypes.byref(numbers, at * size) for at in range(len(numbers)))
