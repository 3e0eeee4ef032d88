"""Searches words and filters in a LanceDB table with Lance itself, which is faster than LanceDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import lance
from lance.query import FullTextOperator, MatchQuery

from worker.vectors import Leg, ties
from worker.vectors.lance.filter_sql import where
from worker.vectors.lance.indexes import COLUMNS
from worker.vectors.rows import words

#: Minimum share of all rows that pass a filter for a search without it, which reads so many times the expected rows.
MANY_PASS, SPARE = 0.1, 1.5
#: Growth of the number of rows from one attempt to the next.
MORE = 4
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
    limit = ties.first_limit(leg.limit)
    while True:
        rows = _best(opened, leg, where(leg.conditions), limit, with_ids=with_ids)
        more = ties.next_limit(leg.limit, limit, rows["_score"].to_pylist())
        if more is None:
            return rows
        limit = more


def found_among(opened: Any, leg: Leg, share: float, passes: Callable[[Any], Any]) -> Any | None:
    """Return the result of `found` for a filter that this `share` of all rows passes, by a search without the filter.

    A filter that names thousands of files takes Lance longer than the search. `passes` returns a mask of the passing
    `_rowid`s. If too few of the best rows pass, more rows are found, still without the filter: how long a search takes
    must not say whether hidden rows have the words. Returns None if too few of all rows pass.
    """
    if share < MANY_PASS:
        return None
    limit = int(SPARE / share * ties.first_limit(leg.limit))
    while True:
        rows = _best(opened, leg, "", limit, with_ids=False)
        passing = rows.filter(passes(rows["_rowid"].to_numpy()))
        # rows that tie with the last one may be missing
        if len(rows) < limit or (
            len(passing) >= leg.limit
            and passing["_score"][leg.limit - 1].as_py() - rows["_score"][-1].as_py() > ties.EQUAL
        ):
            return passing
        limit *= MORE


def _best(opened: Any, leg: Leg, condition: str, limit: int, *, with_ids: bool) -> Any:
    # A match query treats its text as plain words, even if it contains operators.
    operator = FullTextOperator.AND if leg.phrase else FullTextOperator.OR
    return opened.scanner(
        columns=["_score", "id"] if with_ids else ["_score"],
        with_row_id=not with_ids,
        filter=condition or None,
        prefilter=True,
        limit=limit,
        full_text_query=MatchQuery(words(leg), COLUMNS[leg.field], operator=operator),
    ).to_table()


def texts(opened: Any, columns: Sequence[str]) -> Iterable[Any]:
    """Yield the columns of all rows in batches, with Lance's `_rowid`."""
    batches: Iterable[Any] = opened.scanner(
        columns=[*columns], with_row_id=True, batch_size=BATCH_ROWS, batch_readahead=1
    ).to_batches()
    return batches


def fragments(opened: Any) -> dict[int, Any]:
    """Return the parts that a table consists of, by their numbers. Each write adds one."""
    return {fragment.fragment_id: fragment for fragment in opened.get_fragments()}


def rows_of(opened: Any, columns: Sequence[str], parts: Sequence[Any]) -> Any:
    """Return the columns of all rows of some fragments, at least one, with Lance's `_rowid`."""
    return opened.scanner(columns=[*columns], with_row_id=True, fragments=[*parts]).to_table()


def texts_of(opened: Any, parts: Sequence[Any], columns: Sequence[str], _row_ids: object) -> Iterable[Any]:
    """Return the columns of all rows of some fragments in batches, with Lance's `_rowid`."""
    batches: Iterable[Any] = rows_of(opened, columns, parts).to_batches()
    return batches


def all_row_ids(opened: Any) -> Any:
    """Return Lance's `_rowid` of all rows."""
    return opened.scanner(columns=[], with_row_id=True).to_table()["_rowid"].to_numpy()


def row_ids(opened: Any, condition: str, limit: int | None = None) -> Any:
    """Return Lance's `_rowid` of the rows that pass a filter, up to `limit`."""
    scanner = opened.scanner(columns=[], with_row_id=True, filter=condition, limit=limit)
    return scanner.to_table()["_rowid"].to_numpy()
