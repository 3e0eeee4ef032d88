"""Finds where the containers of a JSON text begin, end and divide, with numpy and without recursion.

Brackets, commas and colons outside strings are sorted by nesting level. A container is then a contiguous run: its
opening bracket, its separators in order, its closing bracket.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.tokens.byte_tables import Bytes, Offsets, byte_table
from worker.tokens.tokenizers import char_offsets

_COLON = ord(":")
_OBJECT = ord("{")
_QUOTE = ord('"')
_BACKSLASH = ord("\\")


_IS_MARK = byte_table(b"{}[],:")
_IS_OPENER = byte_table(b"{[")
_IS_CLOSER = byte_table(b"}]")


@dataclass(frozen=True, slots=True)
class JsonMembers:
    """The members of one container, one array entry each.

    `starts` and `ends` are character offsets that include white space and keys. `values` are the offsets after the
    colon. `containers` holds the numbers (see `JsonStructure`) of values that are containers, else -1.
    """

    starts: Offsets
    ends: Offsets
    values: Offsets
    containers: Offsets

    def only(self, numbers: Offsets) -> JsonMembers:
        """Some of the members."""
        return JsonMembers(self.starts[numbers], self.ends[numbers], self.values[numbers], self.containers[numbers])


@dataclass(frozen=True, slots=True)
class JsonStructure:
    """All marks of a text, sorted by level, then by position.

    A container's number is the index of its opening bracket. `openers` are the offsets of all opening brackets.
    """

    text: str
    positions: Offsets
    kinds: Bytes
    closers: Offsets
    order: Offsets
    rank: Offsets
    openers: Offsets

    @property
    def root(self) -> int | None:
        """Number of the outermost container; None if the text is a scalar."""
        return 0 if self.positions.size else None

    def span(self, container: int) -> tuple[int, int]:
        """Return the character span of a container, including both brackets."""
        return int(self.positions[container]), int(self.positions[self._closer(container)]) + 1

    def members(self, container: int) -> JsonMembers:
        """Return the container's members in order."""
        closer = self._closer(container)
        kinds = self.kinds[container : closer + 1]
        is_colon = kinds == _COLON
        borders = container + (~is_colon).nonzero()[0]
        values = container + is_colon.nonzero()[0] if kinds[0] == _OBJECT else borders[:-1]
        if closer == container + 1 and not self.text[self.positions[container] + 1 : self.positions[closer]].strip():
            borders = values = borders[:0]
        following = self.rank[self.order[values] + 1]
        return JsonMembers(
            starts=self.positions[borders[:-1]] + 1,
            ends=self.positions[borders[1:]],
            values=self.positions[values] + 1,
            containers=np.where(_IS_OPENER[self.kinds[following]], following, -1),
        )

    def have_containers(self, members: JsonMembers) -> NDArray[np.bool_]:
        """Return a mask of the members with a container inside their value."""
        nested_counts = self.openers.searchsorted(members.ends) - self.openers.searchsorted(members.values)
        return nested_counts > np.where(members.containers >= 0, 1, 0)

    def key(self, start: int, value: int) -> str:
        """Return the key of the object member with this start and value.

        Escapes stay undecoded if the key has characters that databases reject.
        """
        raw = self.text[start : value - 1].strip()
        key = raw[1:-1] if "\\" not in raw else str(json.loads(raw))
        return raw[1:-1] if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in key) else key

    def _closer(self, container: int) -> int:
        return int(self.closers[self.closers.searchsorted(container)])


def scan(text: str) -> JsonStructure:
    """Return the structure of a text that is known to be well-formed JSON."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    # no flatnonzero, diff, append or isin: each makes several calls, which is slow for short texts
    marks = _IS_MARK.take(raw).nonzero()[0]
    marks = marks[_string_ends(raw).searchsorted(marks) & 1 == 0]
    kinds = raw[marks]
    is_opener, is_closer = _IS_OPENER[kinds], _IS_CLOSER[kinds]
    levels = np.cumsum(is_opener.astype(np.int32) - is_closer) + is_closer
    # 16-bit integers sort in linear time, and a parsed text is never nested deeper than that
    order = np.argsort(levels.astype(np.uint16), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    positions = marks if len(raw) == len(text) else char_offsets(raw, marks)
    return JsonStructure(
        text, positions[order], kinds[order], is_closer[order].nonzero()[0], order, rank, positions[is_opener]
    )


def _string_ends(raw: Bytes) -> Offsets:
    """Return the byte offsets of the quotes that begin or end a string."""
    is_quote = raw == _QUOTE
    is_quote[_escaped((raw == _BACKSLASH).nonzero()[0])] = False
    quotes: Offsets = is_quote.nonzero()[0]
    return quotes


def _escaped(backslashes: Offsets) -> NDArray[np.int64]:
    """Return the byte offsets right after each run of an odd number of backslashes."""
    if not backslashes.size:
        return backslashes
    breaks = (backslashes[1:] - backslashes[:-1] != 1).nonzero()[0]
    firsts: Offsets = backslashes[np.concatenate(([0], breaks + 1))]
    lasts: Offsets = backslashes[np.concatenate((breaks, [-1]))]
    odd_run_ends: Offsets = lasts[(lasts - firsts) % 2 == 0]
    return odd_run_ends + 1
