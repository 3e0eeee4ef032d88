"""A piece of a written text with what stands for it when the text is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import chain
from typing import NamedTuple


class Edit(NamedTuple):
    """The characters from `start` to `end` are read as `text`. The edits of a text are ordered and do not overlap."""

    start: int
    end: int
    text: str


def merged(first: Iterable[Edit], others: Iterable[Edit]) -> Iterator[Edit]:
    """The edits of both in order, without those of the others that overlap one of the first."""
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
    """The edits of all kinds in order, one by one. Of two that overlap, that of the earlier kind counts."""
    present = []
    for kind in kinds:
        edits = iter(kind)
        if first := next(edits, None):
            present.append(chain((first,), edits))
    return reduce(merged, present) if present else iter(())
