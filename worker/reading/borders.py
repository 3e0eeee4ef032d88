"""Finds the parts of a text that are read alone as within the text, so that each is a slice of the text's read form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Offsets = NDArray[np.int64]

#: Bytes searched together, so that their arrays stay in the processor's cache.
_WINDOW = 1 << 16
_BACKSLASH, _LINE_END = np.frombuffer(b"\\\n", dtype=np.uint8)
_BYTES = 256


@dataclass(frozen=True, slots=True, eq=False)
class Borders:
    r"""The places between which a format's texts are read alike, whatever is beyond them.

    No pattern of the format matches or examines one of the characters `between`, unless `across` says that a text may
    have such edits. They are ASCII, and a quote may end an escape. Otherwise a part with edits has one of the `signs`,
    where `?` is any character outside Latin-1. A part that starts with one of the characters `at_start` may be read
    differently.
    """

    across: Callable[[str], bool]
    signs: bytes
    between: bytes = b"\n"
    at_start: bytes = b"\\"

    def known(self, text: str, starts: Offsets, ends: Offsets) -> tuple[Flags, Flags]:
        """Return which parts are certainly read alone as within the text, and which have no edits alone.

        Parts have at least one character.
        """
        if self.across(text):
            unknown = np.zeros(len(starts), dtype=np.bool_)
            return unknown, unknown
        padded = f"\n{text}\n"
        before, first, last, after = (
            np.frombuffer(
                "".join(map(padded.__getitem__, places.tolist())).encode("latin-1", "replace"), dtype=np.uint8
            )
            for places in (starts, starts + 1, ends, ends + 1)
        )
        are_alike = self._part(before, first) & self._part(last, after) & ~_table(self.at_start).take(first)
        if are_alike.all():
            return are_alike, are_alike
        return are_alike, self._are_plain(text, starts, ends)

    def _part(self, left: Bytes, right: Bytes) -> Flags:
        """Return a mask of the neighbouring characters that no match contains both of."""
        is_border = _table(self.between)
        parted: Flags = (is_border.take(left) | is_border.take(right)) & (left != _BACKSLASH)
        return parted

    def _are_plain(self, text: str, starts: Offsets, ends: Offsets) -> Flags:
        """Return a mask of the parts without signs."""
        if "xn--" in text:
            return np.zeros(len(starts), dtype=np.bool_)
        places = np.concatenate(
            [self._places(text[start : start + _WINDOW]) + start for start in range(0, len(text), _WINDOW)]
        )
        plain: Flags = places.searchsorted(starts) == places.searchsorted(ends)
        return plain

    def _places(self, window: str) -> Offsets:
        """Return the places of all signs."""
        octets = _in_latin(window)
        places: Offsets = reduce(np.logical_or, (octets == sign for sign in self.signs)).nonzero()[0]
        return places


def _in_latin(text: str) -> Bytes:
    return np.frombuffer(text.encode("latin-1", "replace"), dtype=np.uint8)


def _table(signs: bytes) -> Flags:
    table = np.zeros(_BYTES, dtype=np.bool_)
    table[list(signs)] = True
    return table
