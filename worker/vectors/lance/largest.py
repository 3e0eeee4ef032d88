"""Finds the k-th largest of many values, even if many are equal.

`numpy.partition` takes many times as long if most values are equal: up to 0.8 s for a million.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Maximum number of values in a group. The first pass compares only the largest value of each group.
MOST_IN_GROUP = 64
#: Minimum number of groups for each of the `k` values. With fewer, many groups hold several of the `k` largest.
GROUPS = 4


def kth_largest(values: NDArray[np.number], k: int) -> float:
    """Return the `k`-th largest of the values; an exact integer of integers.

    There are at least `k` > 0, and none is NaN.
    """
    in_group = min(MOST_IN_GROUP, len(values) // (GROUPS * k))
    if in_group <= 1:
        return _kth(values, k)
    groups = len(values) // in_group
    # k groups have at least this, and fewer than k groups have more
    least = kth_largest(values[: in_group * groups].reshape(in_group, groups).max(axis=0), k)
    more = values[values > least]
    return least if len(more) < k else _kth(more, k)


def _kth(values: NDArray[np.number], k: int) -> float:
    found: float = np.sort(values)[-k].item()
    return found
