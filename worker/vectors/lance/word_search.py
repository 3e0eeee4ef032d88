"""Searches words and filters in a LanceDB table with Lance itself, which is faster than LanceDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import lance
from lance.query import FullTextOperator, MatchQuery

from worker.vectors import Leg, ties
from worker.vectors.lance.filter_sql import where
from worker.vectors.lance.indexes import COLUMNS
from worker.vectors.rows import words

#: Rows whose texts are read at a time.
BATCH_ROWS = 4_096


def new_session(index_bytes: int, metadata_bytes: int) -> Any:
    """Create a cache for the datasets of one table."""
    return lance.Session(index_bytes, metadata_bytes)


def dataset(path: Path, version: int, session: Any) -> Any:
    """Open a table in one of its versions. Takes microseconds."""
    return lance.dataset(path, version=version, session=session)


def found(opened: Any, leg: Leg, *, with_ids: bool) -> Any:
    """Return the rows that have words of a leg, with their `_score`, and some beyond its limit.

    They have their `id`, or else Lance's `_rowid`, which is cheaper.
    """
    # A match query treats its text as plain words, even if it contains operators.
    operator = FullTextOperator.AND if leg.phrase else FullTextOperator.OR
    query = MatchQuery(words(leg), COLUMNS[leg.field], operator=operator)
    columns = ["_score", "id"] if with_ids else ["_score"]
    limit = ties.first_limit(leg.limit)
    while True:
        rows = opened.scanner(
            columns=columns,
            with_row_id=not with_ids,
            filter=where(leg.conditions) or None,
            prefilter=True,
            limit=limit,
            full_text_query=query,
        ).to_table()
        more = ties.next_limit(leg.limit, limit, rows["_score"].to_pylist())
        if more is None:
            return rows
        limit = more


def texts(opened: Any, columns: Sequence[str]) -> Iterable[Any]:
    """Yield the columns of all rows in batches, with Lance's `_rowid`."""
    batches: Iterable[Any] = opened.scanner(
        columns=[*columns], with_row_id=True, batch_size=BATCH_ROWS, batch_readahead=1
    ).to_batches()
    return batches


def row_ids(opened: Any, condition: str, limit: int | None = None) -> Any:
    """Return Lance's `_rowid` of the rows that pass a filter, up to `limit`."""
    scanner = opened.scanner(columns=[], with_row_id=True, filter=condition, limit=limit)
    return scanner.to_table()["_rowid"].to_numpy()
