"""The changes that a watch notices in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

#: If this many changes arrive at once, the system may have dropped some.
MANY_CHANGES = 1000


@dataclass(frozen=True, slots=True)
class SeenChanges:
    """Changed paths, relative to the folder; None if any path may have changed."""

    paths: frozenset[str] | None

    def __or__(self, other: SeenChanges) -> SeenChanges:
        if self.paths is None or other.paths is None or len(self.paths | other.paths) > MANY_CHANGES:
            return ANYTHING
        return SeenChanges(self.paths | other.paths)

    def __bool__(self) -> bool:
        return self.paths is None or bool(self.paths)


NOTHING, ANYTHING = SeenChanges(frozenset()), SeenChanges(None)


@dataclass(frozen=True, slots=True)
class NoticedChanges:
    """Noticed changes in a folder, and the quiet period to wait for."""

    seen: SeenChanges
    quiet: timedelta


class Followed(Protocol):
    """Watches one index's folder."""

    def look(self) -> NoticedChanges | None:
        """Return the changes since the last call, if any."""
        ...

    def close(self) -> None:
        """Stop watching."""
        ...
