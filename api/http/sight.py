"""An index as one caller sees it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from schemas.content.acl import Sight
from worker.state.access import acl
from worker.state.index.tools import Index


@dataclass(slots=True)
class ListsVersion:
    """The version of a project's access lists that an answer obeys; None as long as no node ever had a list.

    `is_open`: the project had no list when the texts of the answer were read. So it holds as it is. `sees_all`: all
    files of an index were read, so those that are new count too. With `is_selective` an answer reads only files that it
    selected, even if these are all.
    """

    number: acl.Version | None
    is_open: bool = field(default=False, compare=False)
    sees_all: bool = field(default=False, compare=False)
    is_selective: bool = field(default=False, compare=False)

    def holds(self, now: ListsVersion) -> bool:
        """Whether an answer that obeys this version shows nothing that `now`, the present version, hides."""
        if self.number is None or now.number is None or self.sees_all:
            return self == now
        return self.number.revoked == now.number.revoked


@dataclass(frozen=True, slots=True)
class SeenIndex(Index):
    """An index, and the documents of it that a call may show. What answers callers takes this, not an `Index`.

    `lists` is set if the answer is made again should they change meanwhile; None: the present ones count.
    """

    sight: Sight = field(kw_only=True)
    lists: ListsVersion | None = field(default=None, kw_only=True)


def seen(index: Index, sight: Sight, lists: ListsVersion | None = None) -> SeenIndex:
    """The index as the caller sees it."""
    values = {each.name: getattr(index, each.name) for each in fields(Index)}
    return SeenIndex(**values, sight=sight, lists=lists)
