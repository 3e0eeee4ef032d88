"""A span of a written text with its readable replacement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from itertools import chain
from typing import NamedTuple


class Edit(NamedTuple):
    """A replacement of the characters from `start` to `end`. A text's edits are ordered and do not overlap."""

    start: int
    end: int
    text: str


#: Builds an `Edit` from a tuple of its fields, in half the time of its own constructor.
made_edit = partial(tuple.__new__, Edit)


def merged(first: Iterable[Edit], others: Iterable[Edit]) -> Iterator[Edit]:
    """Merge edits in order, without `others` that overlap one of the first."""
    of_first = iter(first)
    pending = next(of_first, None)
    for edit in others:
        while pending is not None and pending.end <= edit.start:
            yield pending
            pending = next(of_first, None)
        if pending is None or edit.end <= pending.start:
            yield edit
    if pending is not None:
        yield pending
        yield from of_first


def all_of(*kinds: Iterable[Edit]) -> Iterator[Edit]:
    """Merge the edits of all kinds in order. Of two that overlap, the earlier kind wins."""
    present = []
    for kind in kinds:
        edits = iter(kind)
        if first := next(edits, None):
            present.append(chain((first,), edits))
    return reduce(merged, present) if present else iter(())
