"""Ranges of a bucket's keys. A long listing is split into several ranges with separate requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class KeyRange(NamedTuple):
    """The keys after `after`, up to and including `until`; None is unbounded."""

    after: str = ""
    until: str | None = None

    def holds(self, key: str) -> bool:
        """Return whether a key is in the range."""
        return key > self.after and (self.until is None or key <= self.until)

    def from_key(self, last: str) -> KeyRange | None:
        """Return the rest of the range after the key `last`; None if it is empty."""
        return None if self.until is not None and last >= self.until else KeyRange(last, self.until)

    def divide(self, boundaries: Sequence[str], parts: int) -> list[KeyRange]:
        """Return at most `parts` ranges, split evenly at ascending `boundaries`. Boundaries outside are ignored."""
        inside = [boundary for boundary in boundaries if self.holds(boundary) and boundary != self.until]
        count = min(parts - 1, len(inside))
        cuts = [inside[(number + 1) * len(inside) // (count + 1)] for number in range(count)]
        return [KeyRange(*ends) for ends in zip([self.after, *cuts], [*cuts, self.until], strict=True)]


class ListingPosition(NamedTuple):
    """The position of a listing: the number of its part, and the remaining ranges. The first is listed next."""

    part: int
    ranges: Sequence[KeyRange]

    def cursor(self) -> str:
        """Return the position as a cursor."""
        ranges = ",".join("-".join(end.encode().hex() for end in range_ if end is not None) for range_ in self.ranges)
        return f"{self.part}:{ranges}" if self.part else ranges


def position_of(cursor: str) -> ListingPosition:
    """Return the position of a cursor."""
    part, _, ranges = cursor.rpartition(":")
    ends = [[bytes.fromhex(end).decode() for end in range_.split("-")] for range_ in ranges.split(",")]
    return ListingPosition(int(part or 0), [KeyRange(*pair) for pair in ends])
