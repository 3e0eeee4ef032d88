"""Finds the parts of a text that are read alone as within the text, so that each is a slice of the text's read form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from worker.tokens.byte_tables import Flags, Offsets, in_latin

#: Bytes searched together, so that their arrays stay in the processor's cache.
_WINDOW = 1 << 16


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
        self._between, self._at_start = between.decode(), at_start.decode()

    def unlike(self, text: str, starts: Sequence[int], ends: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the numbers of the parts that may be read differently alone, and of those that then may have edits.

        Parts have at least one character.
        """
        if self.across(text):
            return range(len(starts)), range(len(starts))
        # few parts are the rule, for which numpy takes longer
        padded = f"\n{text}\n"
        lefts, rights = ([padded[place : place + 2] for place in side] for side in (starts, ends))
        begins = {pair: pair[1] not in self._at_start and self._part(*pair) for pair in {*lefts}}
        finishes = {pair: self._part(*pair) for pair in {*rights}}
        if all(begins.values()) and all(finishes.values()):
            return (), ()
        are_alike = zip(map(begins.__getitem__, lefts), map(finishes.__getitem__, rights), strict=True)
        unlike = np.array([number for number, both in enumerate(are_alike) if not all(both)])
        are_plain = self._are_plain(text, np.array(starts)[unlike], np.array(ends)[unlike])
        return unlike.tolist(), unlike[~are_plain].tolist()

    def _part(self, left: str, right: str) -> bool:
        """Return whether no match contains both of two neighbouring characters."""
        return left != "\\" and (left in self._between or right in self._between)

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
