"""Finds the parts of a text that are read alone as within the text, so that each is a slice of the text's read form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from worker.tokens.byte_tables import Bytes, Flags, Offsets, byte_table, in_latin

#: Bytes searched together, so that their arrays stay in the processor's cache.
_WINDOW = 1 << 16
_BACKSLASH, _LINE_END = np.frombuffer(b"\\\n", dtype=np.uint8)


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
            np.frombuffer(in_latin("".join(map(padded.__getitem__, places.tolist()))), dtype=np.uint8)
            for places in (starts, starts + 1, ends, ends + 1)
        )
        are_alike = self._part(before, first) & self._part(last, after) & ~byte_table(self.at_start).take(first)
        if are_alike.all():
            return are_alike, are_alike
        return are_alike, self._are_plain(text, starts, ends)

    def _part(self, left: Bytes, right: Bytes) -> Flags:
        """Return a mask of the neighbouring characters that no match contains both of."""
        is_border = byte_table(self.between)
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
        octets = np.frombuffer(in_latin(window), dtype=np.uint8)
        places: Offsets = reduce(np.logical_or, (octets == sign for sign in self.signs)).nonzero()[0]
        return places
