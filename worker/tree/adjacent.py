"""Clusters of neighbours: consecutive texts of a folder, cut where they differ most.

Each cut depends only on the similarities around it, as the cuts between chunks do. So an edit changes only the clusters
around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: Maximum size of a cluster, as a multiple of the minimum.
MAX_FACTOR = 4
#: Added to the difference of neighbours in different files, and in different folders: more than any two texts differ.
NEXT_FILE = 2.0
NEXT_FOLDER = 4.0

Gaps = NDArray[np.float32]


def gaps(paths: Sequence[str], similarities: Sequence[float] | Gaps) -> Gaps:
    """Return the difference of each text from the next one, given their files and the cosines of neighbours."""
    borders = [_border(path, following) for path, following in pairwise(paths)]
    return np.asarray(borders, dtype=np.float32) + (1 - np.asarray(similarities, dtype=np.float32))


def _border(path: str, following: str) -> float:
    if path == following:
        return 0.0
    return NEXT_FILE if path.rpartition("/")[0] == following.rpartition("/")[0] else NEXT_FOLDER


def neighbours(gap: Gaps, min_size: int) -> list[range]:
    """Cut `len(gap) + 1` texts into runs of `min_size` to about `MAX_FACTOR * min_size` texts."""
    count = len(gap) + 1
    cuts = [0, *(place + 1 for place in _peaks(gap, min_size)), count]
    runs = [range(start, end) for start, end in pairwise(cuts)]
    return [part for run in runs for part in _split(gap, run, min_size)]


def _peaks(gap: Gaps, min_size: int) -> list[int]:
    """Return gaps that no other of the `min_size - 1` gaps on either side exceeds; of equal ones the first."""
    peaks = []
    for place in range(min_size - 1, len(gap) - min_size + 1):
        start = max(0, place - min_size + 1)
        around = gap[start : place + min_size]
        if start + int(np.argmax(around)) == place:
            peaks.append(place)
    return peaks


def _split(gap: Gaps, run: range, min_size: int) -> list[range]:
    """Split a run that is too long at its widest gap, and repeat for the parts."""
    if len(run) <= MAX_FACTOR * min_size:
        return [run]
    inner = gap[run.start + min_size - 1 : run.stop - min_size]
    cut = run.start + min_size + int(np.argmax(inner))
    return [*_split(gap, range(run.start, cut), min_size), *_split(gap, range(cut, run.stop), min_size)]
