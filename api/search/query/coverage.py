"""Computes how much of its folder an answer covers."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from api.http.lookup_cache import LookupCache
from schemas.queries.search import Coverage, Query
from worker.resources import Resources
from worker.state.index import tasks
from worker.state.index.tools import Index
from worker.state.pool import Pool


def coverage(
    resources: Resources, index: Index, query: Query, stale_files: int | None, *, vectors_missing: bool
) -> Coverage:
    """Count the files an answer covers.

    A lost namespace does not affect keywords in Postgres; without them, the answer covers no file. While the namespace
    is rewritten, `hybrid` counts only files with vectors, because no note says that some are missing. Counts may be
    `CACHE_SECONDS` old, unless the query asks to compare the folder.
    """
    keywords_in_postgres = query.mode != "vector" and index.keyword_index == "postgres"
    by_keywords = keywords_in_postgres and (vectors_missing or query.mode == "keyword")
    counts = _counts(resources.pool)
    read = counts.get if query.refresh == "none" else counts.fresh
    indexed, total = read((index.id, by_keywords)) or (0, 0)
    if vectors_missing and not by_keywords:
        indexed = 0
    return Coverage(indexed_files=indexed, total_files=total, stale_files=stale_files)


@lru_cache(maxsize=1)
def _counts(pool: Pool) -> LookupCache[tuple[UUID, bool], tuple[int, int]]:
    """The numbers of indexed files and of all files, by index and by whether files that lost their vectors count."""
    return LookupCache(lambda key: tasks.counts(pool, key[0], include_lost=key[1]))
