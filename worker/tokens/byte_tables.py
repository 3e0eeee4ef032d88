"""Looks up kinds of characters in arrays of bytes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Offsets = NDArray[np.int64]


def byte_table(octets: Iterable[int]) -> Flags:
    """Return a flag (256) for each byte: whether it is one of these."""
    table = np.zeros(256, dtype=np.bool_)
    table[list(octets)] = True
    return table


def in_latin(text: str) -> bytes:
    """Return a byte for each character. A question mark stands for all characters outside Latin-1."""
    return text.encode("latin-1", "replace")
