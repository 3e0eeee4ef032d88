"""Offsets in a text of code as columns: in characters, and within definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from worker.tokens.byte_tables import Offsets
from worker.tokens.tokenizers import char_offsets

Columns = Sequence[Sequence[Any]]
#: A sentinel definition that starts and ends after every text, and has no parent.
_SENTINEL = np.array([(2**62, 2**62, 2**62, -1)], dtype=np.int64)


def in_characters(data: bytes, table: Offsets) -> Offsets:
    """Offsets in bytes as offsets in characters."""
    # one byte more, for offsets at the end of the text
    raw = np.frombuffer(data + b"\n", dtype=np.uint8)
    offsets, inverse = np.unique(table, return_inverse=True)
    characters: Offsets = char_offsets(raw, offsets)[inverse.reshape(table.shape)]
    return characters


def reference_columns(breaks: Offsets, table: Offsets, uses: list[tuple[int, str, str]]) -> Columns:
    """Return the references, each at most once per line."""
    if not uses:
        return ((), (), (), ())
    starts, names, kinds = zip(*uses, strict=True)
    offsets = np.array(starts, dtype=np.int64)
    lines = (breaks.searchsorted(offsets) + 1).tolist()
    return tuple(
        zip(*dict.fromkeys(zip(names, kinds, _innermost(table, offsets).tolist(), lines, strict=True)), strict=True)
    )


def _innermost(table: Offsets, offsets: Offsets) -> Offsets:
    """Return the index of the innermost definition at each byte offset, or -1. `table` has start, end and parent."""
    # index -1 selects the sentinel, whose end is after every byte
    starts, _, ends, parents = np.concatenate([table, _SENTINEL]).T
    within: Offsets = starts.searchsorted(offsets, side="right") - 1
    while (past_end := (ends[within] <= offsets).nonzero()[0]).size:
        within[past_end] = parents[within[past_end]]
    return within
