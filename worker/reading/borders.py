"""Finds the parts of a text that are read alone as within the text, so that each is a slice of the text's read form."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from worker.tokens.byte_tables import Flags, Offsets, byte_table, in_latin

#: Bytes searched together, so that their arrays stay in the processor's cache.
_WINDOW = 1 << 16
_BACKSLASH = ord("\\")


class Borders:
    r"""The places between which a format's texts are read alike, whatever is beyond them.

    No pattern of the format matches or examines one of the characters `between`, unless `across` says that a text may
    have such edits. They are ASCII, and a quote may end an escape. Otherwise a part with edits has one of the `signs`,
    where `?` is any character outside Latin-1. A part that starts with one of the characters `at_start` may be read
    differently.
    """

    def __init__(
        self, across: Callable[[str], bool], signs: bytes, between: bytes = b"\n", at_start: bytes = b"\\"
    ) -> None:
        self.across = across
        self._signs = signs
        self._is_border, self._is_at_start = byte_table(between), byte_table(at_start)

    def known(self, text: str, starts: Offsets, ends: Offsets) -> tuple[Flags, Flags]:
        """Return which parts are certainly read alone as within the text, and which have no edits alone.

        Parts have at least one character.
        """
        if self.across(text):
            unknown = np.zeros(len(starts), dtype=np.bool_)
            return unknown, unknown
        # the characters before, at the start, at the end and behind
        padded = f"\n{text}\n"
        places = np.concatenate((starts, ends, starts + 1, ends + 1)).tolist()
        around = np.frombuffer(in_latin("".join(map(padded.__getitem__, places))), dtype=np.uint8).reshape(4, -1)
        is_border = self._is_border.take(around)
        # no match contains both of the neighbouring characters
        are_parted = (is_border[:2] | is_border[2:]) & (around[:2] != _BACKSLASH)
        are_alike = are_parted[0] & are_parted[1] & ~self._is_at_start.take(around[2])
        if are_alike.all():
            return are_alike, are_alike
        return are_alike, self._are_plain(text, starts, ends)

    def _are_plain(self, text: str, starts: Offsets, ends: Offsets) -> Flags:
        """Return a mask of the parts without signs."""
        if "-" in text and "xn--" in text:
            return np.zeros(len(starts), dtype=np.bool_)
        places = np.concatenate(
            [self._places(text[start : start + _WINDOW]) + start for start in range(0, len(text), _WINDOW)]
        )
        plain: Flags = places.searchsorted(starts) == places.searchsorted(ends)
        return plain

    def _places(self, window: str) -> Offsets:
        """Return the places of all signs."""
        octets = np.frombuffer(in_latin(window), dtype=np.uint8)
        places: Offsets = reduce(np.logical_or, (octets == sign for sign in self._signs)).nonzero()[0]
        return places
