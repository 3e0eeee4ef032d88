"""A ledger of entries."""

from __future__ import annotations

import json as codec
from collections.abc import Iterator
from dataclasses import dataclass, field

LIMIT = 1_000
entries_seen = 0


@dataclass
class Entry:
    """One movement of money."""

    amount: int
    note: str = ""


class Ledger(Iterator[Entry]):
    """Keeps entries in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, amount: int, note: str = "") -> Entry:
        """Append an entry."""

        def checked(value: int) -> int:
            return min(value, LIMIT)

        entry = Entry(checked(amount), note)
        self.entries.append(entry)
        return entry

    @property
    def total(self) -> int:
        """The sum of all amounts."""
        return sum(entry.amount for entry in self.entries)


async def dump(ledger: Ledger) -> str:
    """The ledger as JSON."""
    return codec.dumps([entry.amount for entry in ledger.entries])


def blank() -> list[str]:
    """A field that nothing was put into."""
    return field(default_factory=list)
