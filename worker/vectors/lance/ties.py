"""Fetches rows beyond a limit where rows at the limit are equal: then their ids decide which are within, not chance."""

from __future__ import annotations

from typing import Any

from worker.vectors.lance.vector_cache import EQUAL

#: Rows fetched beyond the limit. They show whether rows at the limit are equal.
TIES = 64
#: Up to this many equal rows beyond the limit are ordered by id; among more, LanceDB chooses.
MAX_TIES = 1 << 16
#: Factor by which more rows are fetched at each attempt.
GROWTH = 4


def first_limit(limit: int) -> int:
    """The rows to fetch at first."""
    return limit + TIES


def next_limit(limit: int, fetched: int, values: Any) -> int | None:
    """The rows to fetch instead of `fetched`, whose `values` rank them; None if rows that may equal the last are there.

    `values` is a column of Arrow.
    """
    most = limit + MAX_TIES
    if len(values) < fetched or fetched == most or not _ends_in_tie(values, limit):
        return None
    return min(GROWTH * fetched, most)


def _ends_in_tie(values: Any, limit: int) -> bool:
    """Whether rows that were not fetched may equal the last one within the limit."""
    last, within = values[-1].as_py(), values[limit - 1].as_py()
    return bool(abs(last - within) <= EQUAL)
