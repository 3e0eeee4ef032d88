"""Computes how much of its folder an answer covers."""

from __future__ import annotations

from schemas.search import Coverage, Query
from worker.resources import Resources
from worker.state.index import tasks
from worker.state.index.tools import Index


def coverage(
    resources: Resources, index: Index, query: Query, stale_files: int | None, *, vectors_missing: bool
) -> Coverage:
    """Count the files an answer covers.

    A lost namespace does not affect keywords in Postgres; without them, the answer covers no file. While the namespace
    is rewritten, `hybrid` counts only files with vectors, because no note says that some are missing.
    """
    keywords_in_postgres = query.mode != "vector" and index.keyword_index == "postgres"
    by_keywords = keywords_in_postgres and (vectors_missing or query.mode == "keyword")
    indexed, total = tasks.counts(resources.pool, index.id, include_lost=by_keywords)
    if vectors_missing and not by_keywords:
        indexed = 0
    return Coverage(indexed_files=indexed, total_files=total, stale_files=stale_files)
