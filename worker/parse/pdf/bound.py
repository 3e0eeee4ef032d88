"""Binds functions of PDFium for thousands of short calls.

Such a call takes a quarter of the time of one through pypdfium2: ctypes checks and converts no argument, and Python's
lock is kept. So a pointer must be one of ctypes, and an `int` is C's int.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any

#: Left, bottom, right and top of a page's visible area, in points.
Box = tuple[float, float, float, float]


class Handles:
    """Places for pointers that PDFium returns. Creating an object for each pointer takes three times as long."""

    def __init__(self, size: int) -> None:
        self._addresses = (ctypes.c_void_p * size)()
        step = ctypes.sizeof(ctypes.c_void_p)
        self._places = [ctypes.c_void_p.from_buffer(self._addresses, at * step) for at in range(size)]

    def hold(self, addresses: Iterable[int]) -> Sequence[Any]:
        """Return arguments for at most `size` pointers, which replace the previous ones."""
        held: list[ctypes.c_void_p | int | None] = list(addresses)
        self._addresses[: len(held)] = held
        return self._places[: len(held)]


class Answers:
    """A buffer into which a function of PDFium writes numbers, for many calls."""

    def __init__(self, number: Any, count: int, size: int) -> None:
        """Make room for `count` numbers of each of `size` calls."""
        self._numbers = (number * (count * size))()
        to_numbers = pointers(self._numbers)
        #: Arguments: pointers to the first number of each call, to the second one, and so on.
        self.places = [to_numbers[at::count] for at in range(count)]
        kind: str = self._numbers._type_._type_
        self._count, self._format = count, Struct(f"{count}{kind}")
        self._bytes = memoryview(self._numbers).cast("B")
        self._shown = self._bytes.cast(kind)  # type: ignore[call-overload] # mypy wants a literal

    def first(self, calls: int) -> Iterator[tuple[Any, ...]]:
        """Return the results of the first calls."""
        return self._format.iter_unpack(self.written(calls))

    def columns(self, calls: int) -> list[list[Any]]:
        """Return the first numbers of the first calls' results, the second ones, and so on."""
        shown = self._shown[: self._count * calls]
        return [shown[at :: self._count].tolist() for at in range(self._count)]

    def written(self, calls: int) -> memoryview:
        """Return the result bytes of the first calls."""
        return self._bytes[: self._format.size * calls]


def bound(function: Any, result: Any = None) -> Callable[..., Any]:
    """Return a function of `pypdfium2.raw` without its checks; `result` replaces its return type."""
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return ctypes.PYFUNCTYPE(result or function.restype)(address)


def pointers(numbers: Any) -> tuple[Any, ...]:
    """Return pointers to the numbers of an array, as arguments."""
    size = ctypes.sizeof(numbers) // len(numbers)
    return tuple(ctypes.byref(numbers, at * size) for at in range(len(numbers)))
