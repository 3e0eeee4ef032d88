"""Fetches rows beyond a limit where rows at the limit are equal: then their ids decide which are within, not chance."""

from __future__ import annotations

from collections.abc import Sequence

#: Values that differ by at most this much may be equal: 32-bit sums depend on a row's position.
EQUAL = 1e-5
#: Rows fetched beyond the limit. They show whether rows at the limit are equal.
TIES = 64
#: Up to this many equal rows beyond the limit are ordered by id; among more, the store chooses.
MAX_TIES = 1 << 16
#: Factor by which more rows are fetched at each attempt.
GROWTH = 4


def first_limit(limit: int) -> int:
    """The rows to fetch at first."""
    return limit + TIES


def next_limit(limit: int, fetched: int, values: Sequence[float], most: int | None = None) -> int | None:
    """The rows to fetch instead of `fetched`, whose `values` rank them; None if rows that may equal the last are there.

    A store returns at most `most` rows.
    """
    most = limit + MAX_TIES if most is None else min(most, limit + MAX_TIES)
    if len(values) < fetched or fetched >= most or abs(values[-1] - values[limit - 1]) > EQUAL:
        return None
    return min(GROWTH * fetched, most)
