"""Fetches rows beyond a limit if rows tie at the limit, so that ids and not chance decide which are within it."""

from __future__ import annotations

from collections.abc import Sequence

#: Maximum difference of values that may be equal: 32-bit sums depend on a row's position.
EQUAL = 1e-5
#: Rows fetched beyond the limit, to detect ties at the limit.
TIES = 64
#: Maximum number of tied rows beyond the limit that are ordered by id; beyond it, the store chooses.
MAX_TIES = 1 << 16
#: Factor by which more rows are fetched at each attempt.
GROWTH = 4


def first_limit(limit: int) -> int:
    """Return the number of rows to fetch first."""
    return limit + TIES


def next_limit(limit: int, fetched: int, values: Sequence[float], most: int | None = None) -> int | None:
    """Return the rows to fetch after `fetched`, ranked by `values`; None once no further row may tie with the last.

    A store returns at most `most` rows.
    """
    most = limit + MAX_TIES if most is None else min(most, limit + MAX_TIES)
    if len(values) < fetched or fetched >= most or abs(values[-1] - values[limit - 1]) > EQUAL:
        return None
    return min(GROWTH * fetched, most)
