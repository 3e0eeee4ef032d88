"""Cuts at local minima: content-defined chunking, so that an edit moves only the cuts near it.

Every place where a text may be cut has a key, and a place is a cut if no key within a fixed distance on either side is
smaller. This is the local-minimum method of N. Bjørner, A. Blass and Y. Gurevich, "Content-dependent chunking for
differential compression, the local maximum approach" (Journal of Computer and System Sciences 76, 2010), with keys that
say first how good a place is and then hash its content. As no cut depends on the one before it, an insertion at the
top of a long text leaves all cuts below as they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from worker.chunk.measure import Measure, Span
from worker.tokens import Offsets

Keys = NDArray[np.uint64]

#: Key of a place that is never chosen, such as a blank line.
NEVER = np.uint64(2**64 - 1)

#: Share of the limit that must lie on either side of a cut without a smaller key. Cuts are then at least this far
#: apart and twice as far on average.
RADIUS = 0.36

#: Bits of a key below its class.
CLASS_SHIFT = 61


@dataclass(frozen=True, slots=True)
class Places:
    """Ascending characters where a stretch of text may be cut, the first being its start, and their keys (uint64)."""

    at: Offsets
    keys: Keys


def divide(measure: Measure, places: Places, end: int) -> list[Span]:
    """Adjoining spans from the first place to `end`, each of which fits."""
    bordered = Places(np.append(places.at, end), places.keys)
    units = measure.units(bordered.at)
    bounds = np.concatenate([[0], _cuts(places.keys, units, int(measure.limit * RADIUS)), [len(units) - 1]])
    edges = bordered.at[bounds]
    sure = measure.surely_fit(edges[:-1], edges[1:]).tolist()
    spans: list[Span] = []
    for fits, stretch, span in zip(sure, pairwise(bounds.tolist()), pairwise(edges.tolist()), strict=True):
        spans += [span] if fits else _halve(measure, bordered, units, stretch)
    return spans


def _cuts(keys: Keys, units: Offsets, radius: int) -> Offsets:
    """Indexes of the places that are cuts; none is within `radius` of the first or behind-the-last place."""
    inner = units[:-1]
    left = np.searchsorted(inner, inner - radius)
    right = np.searchsorted(inner, inner + radius, side="right")
    free = (inner - inner[0] >= radius) & (units[-1] - inner >= radius) & (keys != NEVER)
    lowest = np.flatnonzero(free & (keys <= _range_minima(keys, left, right)))
    return _thin(lowest, inner[lowest], radius)


def _range_minima(keys: Keys, left: Offsets, right: Offsets) -> Keys:
    """min(keys[left[i]:right[i]]) for every i, by doubling (a sparse table, one level at a time in memory)."""
    minima = np.empty_like(keys)
    levels = np.frexp((right - left).astype(np.float64))[1] - 1
    table = keys
    for level in range(int(levels.max(initial=0)) + 1):
        asked = np.flatnonzero(levels == level)
        minima[asked] = np.minimum(table[left[asked]], table[right[asked] - (1 << level)])
        table = np.minimum(table[: -(1 << level)], table[1 << level :])
    return minima


def _thin(lowest: Offsets, units: Offsets, radius: int) -> Offsets:
    """Every second radius one of equal minima that lie close together, as in constant or periodic text."""
    gaps = np.flatnonzero(np.diff(units) > radius)
    if len(gaps) >= len(lowest) - 1:
        return lowest
    kept, index = [], 0
    ends = np.append(gaps, len(lowest) - 1)
    while index < len(lowest):
        kept.append(index)
        end_of_group = int(ends[ends.searchsorted(index)])
        index = min(int(units.searchsorted(units[index] + 2 * radius)), end_of_group + 1)
        index = max(index, kept[-1] + 1)
    return lowest[kept]


def _halve(measure: Measure, places: Places, units: Offsets, stretch: Span) -> list[Span]:
    """The stretch between two places (indexes), divided at the best of its middle half until every part fits."""
    spans: list[Span] = []
    stretches = [stretch]
    while stretches:
        low, high = stretches.pop()
        start, end = int(places.at[low]), int(places.at[high])
        if measure.fits(start, end):
            spans.append((start, end))
        elif high - low > 1:
            middle = _best_between(units, places.keys, low, high)
            stretches += [(middle, high), (low, middle)]
        else:
            spans += _by_force(measure, start, end)
    return spans


def _best_between(units: Offsets, keys: Keys, low: int, high: int) -> int:
    """The place with the smallest key in the middle half, of equal ones that nearest to the middle."""
    quarter = (units[high] - units[low]) // 4
    inner = units[low + 1 : high]
    left, right = inner.searchsorted((units[low] + quarter, units[high] - quarter)) + low + 1
    if left >= right:
        left, right = low + 1, high
    among = left + np.flatnonzero(keys[left:right] == keys[left:right].min())
    return int(among[np.abs(units[among] * 2 - units[low] - units[high]).argmin()])


def _by_force(measure: Measure, start: int, end: int) -> list[Span]:
    """A stretch without places, such as one token of many characters, halved by characters until every part fits."""
    spans: list[Span] = []
    stretches = [(start, end)]
    while stretches:
        low, high = stretches.pop()
        if high - low < 2 or measure.fits(low, high):  # noqa: PLR2004 - one character is not divided
            spans.append((low, high))
        else:
            middle = (low + high) // 2
            stretches += [(middle, high), (low, middle)]
    return spans
