"""Computes how much of its folder an answer covers."""

from __future__ import annotations

from api.search.query.legs import VECTORS_MISSING
from api.search.query.trace import Course
from schemas.search import Coverage, Query
from worker.resources import Resources
from worker.state.index import tasks
from worker.state.index.tools import Index


def coverage(resources: Resources, index: Index, query: Query, course: Course, stale: int | None) -> Coverage:
    """Count the files an answer covers.

    A lost namespace does not affect keywords in Postgres; without them, the answer covers no file. While the namespace
    is rewritten, `hybrid` counts only files with vectors, because no note says that some are missing.
    """
    is_missing = course.has_note(VECTORS_MISSING)
    words_in_postgres = query.mode != "vector" and index.keyword_index == "postgres"
    by_words = words_in_postgres and (is_missing or query.mode == "keyword")
    indexed, total = tasks.counts(resources.pool, index.id, lost_too=by_words)
    if is_missing and not by_words:
        indexed = 0
    return Coverage(indexed_files=indexed, total_files=total, stale_files=stale)
