"""Words that fit a number or a name, for messages."""

from __future__ import annotations

from collections.abc import Sequence


def noun(count: float | None, one: str, many: str = "") -> str:
    """The word for a number of things; the plural of most words has an s."""
    return one if count == 1 else many or f"{one}s"


def amount(count: float, one: str, many: str = "") -> str:
    """A number of things in words, such as "1 file" and "2,000 files"."""
    return f"{count:,} {noun(count, one, many)}"


def list_first(names: Sequence[str], most: int) -> str:
    """The first `most` names, and the number of the others: "a, b and 3 more"."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def indefinite(name: str) -> str:
    """A noun with its article, as most are spoken: "a file", "an integer"."""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
