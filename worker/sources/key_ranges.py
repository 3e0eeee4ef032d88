"""Ranges of the keys of a bucket. Many keys are listed as several ranges, of which each has its own requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class KeyRange(NamedTuple):
    """The keys after `after`, up to and with `until`; None means all that follow."""

    after: str = ""
    until: str | None = None

    def holds(self, key: str) -> bool:
        """Whether a key is in the range."""
        return key > self.after and (self.until is None or key <= self.until)

    def from_key(self, last: str) -> KeyRange | None:
        """What is left after the key `last`; None if nothing is."""
        return None if self.until is not None and last >= self.until else KeyRange(last, self.until)

    def divide(self, boundaries: Sequence[str], parts: int) -> list[KeyRange]:
        """At most `parts` ranges, divided at some of the ascending `boundaries`, evenly. Others are ignored."""
        inside = [boundary for boundary in boundaries if self.holds(boundary) and boundary != self.until]
        count = min(parts - 1, len(inside))
        cuts = [inside[(number + 1) * len(inside) // (count + 1)] for number in range(count)]
        return [KeyRange(*ends) for ends in zip([self.after, *cuts], [*cuts, self.until], strict=True)]


class ListingPosition(NamedTuple):
    """How far a listing has come: the number of its part, and what is left of it. The first range is listed next."""

    part: int
    ranges: Sequence[KeyRange]

    def cursor(self) -> str:
        """The position as a cursor."""
        ranges = ",".join("-".join(end.encode().hex() for end in range_ if end is not None) for range_ in self.ranges)
        return f"{self.part}:{ranges}" if self.part else ranges


def position_of(cursor: str) -> ListingPosition:
    """The position that a cursor tells."""
    part, _, ranges = cursor.rpartition(":")
    ends = [[bytes.fromhex(end).decode() for end in range_.split("-")] for range_ in ranges.split(",")]
    return ListingPosition(int(part or 0), [KeyRange(*pair) for pair in ends])
