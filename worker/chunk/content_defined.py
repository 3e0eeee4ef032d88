"""Content-defined chunking: cuts at local minima, so that an edit moves only the cuts near it.

Every place where a text may be cut has a key. A place is a cut if no key within a fixed distance on either side is
smaller. This is the local-minimum method of N. Bjørner, A. Blass and Y. Gurevich, "Content-dependent chunking for
differential compression, the local maximum approach" (Journal of Computer and System Sciences 76, 2010). The keys rank
places by quality first, then by a hash of their content. No cut depends on the previous cut, so an insertion at the top
of a long text leaves all cuts below unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.chunk.measure import Measure, Span
from worker.tokens.byte_tables import Offsets

Keys = NDArray[np.uint64]

#: Key of a place that is never chosen, such as a blank line.
NEVER = np.uint64(2**64 - 1)

#: A cut has no smaller key within this share of the limit on either side. Cuts are therefore at least this far apart,
#: and twice as far on average.
RADIUS = 0.36

#: Bits of a key below its class.
CLASS_SHIFT = 61


#: Places processed together, to bound memory: each needs some hundred bytes of intermediate arrays.
_BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class CutPlaces:
    """Offsets where a text may be cut, ascending from its start to its end, and their keys."""

    offsets: Offsets
    keys: Keys


def divide(measure: Measure, places: CutPlaces, firsts: Offsets, lasts: Offsets) -> list[Span]:
    """Return spans that fit and together cover the sections: non-empty, ascending pairs of place indexes."""
    units = measure.units(places.offsets)
    cuts = _cuts(places.keys, units, firsts, lasts, int(measure.limit * RADIUS))
    begins = np.sort(np.concatenate([firsts, cuts]))
    ends = np.minimum(np.concatenate([begins[1:], lasts[-1:]]), lasts[firsts.searchsorted(begins, side="right") - 1])
    sure = measure.surely_fit(places.offsets[begins], places.offsets[ends]).tolist()
    spans: list[Span] = []
    edges = zip(places.offsets[begins].tolist(), places.offsets[ends].tolist(), strict=True)
    for fits, span, stretch in zip(sure, edges, zip(begins.tolist(), ends.tolist(), strict=True), strict=True):
        spans += [span] if fits else _halve(measure, places, units, stretch)
    return spans


def _cuts(keys: Keys, units: Offsets, firsts: Offsets, lasts: Offsets, radius: int) -> Offsets:
    """Return the indexes of cuts; none is within `radius` of the first or last place of its section."""
    begins = np.maximum(units.searchsorted(units[firsts] + radius), firsts + 1)
    lengths = np.maximum(units.searchsorted(units[lasts] - radius, side="right") - begins, 0)
    before = np.cumsum(lengths) - lengths
    minima = []
    for start in range(0, int(lengths.sum()), _BLOCK):
        number = np.arange(start, min(start + _BLOCK, int(lengths.sum())))
        section = before.searchsorted(number, side="right") - 1
        index = number - before[section] + begins[section]
        minima.append(_lowest(keys, units, index[keys[index] != NEVER], radius))
    lowest = np.concatenate(minima) if minima else firsts[:0]
    return _thin(lowest, units[lowest], radius)


def _lowest(keys: Keys, units: Offsets, index: Offsets, radius: int) -> Offsets:
    """Return the places that have no smaller key within `radius`."""
    if not index.size:
        return index
    begins = units.searchsorted(units[index] - radius)
    ends = units.searchsorted(units[index] + radius, side="right")
    window = slice(int(begins[0]), int(ends[-1]))
    return index[keys[index] <= _range_minima(keys[window], begins - window.start, ends - window.start)]


def _range_minima(keys: Keys, begins: Offsets, ends: Offsets) -> Keys:
    """Return min(keys[begins[i]:ends[i]]) for every i; no range is empty."""
    # every second result belongs to the gap before the next range
    return np.asarray(np.minimum.reduceat(np.append(keys, NEVER), np.column_stack((begins, ends)).ravel())[::2])


def _thin(lowest: Offsets, units: Offsets, radius: int) -> Offsets:
    """Thin out equal minima that lie close together, as in constant or periodic text, to one per two radii."""
    gaps = (units[1:] - units[:-1] > radius).nonzero()[0]
    if len(gaps) >= len(lowest) - 1:
        return lowest
    selected, index = [], 0
    ends = np.concatenate([gaps, [len(lowest) - 1]])
    while index < len(lowest):
        selected.append(index)
        end_of_group = int(ends[ends.searchsorted(index)])
        index = min(int(units.searchsorted(units[index] + 2 * radius)), end_of_group + 1)
        index = max(index, selected[-1] + 1)
    return lowest[selected]


def _halve(measure: Measure, places: CutPlaces, units: Offsets, stretch: Span) -> list[Span]:
    """Split a stretch between two places (indexes) at the best place of its middle half, until every part fits."""
    spans: list[Span] = []
    stretches = [stretch]
    while stretches:
        low, high = stretches.pop()
        start, end = int(places.offsets[low]), int(places.offsets[high])
        if measure.fits(start, end):
            spans.append((start, end))
        elif high - low > 1:
            middle = _best_between(units, places.keys, low, high)
            stretches += [(middle, high), (low, middle)]
        else:
            spans += _by_force(measure, start, end)
    return spans


def _best_between(units: Offsets, keys: Keys, low: int, high: int) -> int:
    """Return the place with the smallest key in the middle half; of equal keys, the one nearest to the middle."""
    quarter = (units[high] - units[low]) // 4
    inner = units[low + 1 : high]
    first, last = inner.searchsorted((units[low] + quarter, units[high] - quarter)) + low + 1
    if first >= last or keys[first:last].min() == NEVER:
        first, last = low + 1, high
    candidates = first + np.flatnonzero(keys[first:last] == keys[first:last].min())
    distances = np.abs(units[candidates] * 2 - units[low] - units[high])
    nearest = candidates[distances == distances.min()]
    return int(nearest[(len(nearest) - 1) // 2])


def _by_force(measure: Measure, start: int, end: int) -> list[Span]:
    """Halve a stretch without places, such as one token of many characters, by characters until every part fits."""
    spans: list[Span] = []
    stretches = [(start, end)]
    while stretches:
        low, high = stretches.pop()
        if high - low < 2 or measure.fits(low, high):  # noqa: PLR2004 - one character cannot be divided
            spans.append((low, high))
        else:
            middle = (low + high) // 2
            stretches += [(middle, high), (low, middle)]
    return spans
