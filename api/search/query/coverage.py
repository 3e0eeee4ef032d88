"""In how much of its folder an answer was looked for."""

from __future__ import annotations

from api.search.query.legs import VECTORS_MISSING
from api.search.query.trace import Course
from schemas.search import Coverage, Query
from worker.resources import Resources
from worker.state.index import tasks
from worker.state.index.tools import Index


def coverage(resources: Resources, index: Index, query: Query, course: Course, stale: int | None) -> Coverage:
    """Where words are in Postgres, a namespace that was lost takes nothing from them; without them it takes all.

    While it is written again, meaning counts in `hybrid`: no note tells that it knows a part only.
    """
    is_missing = course.has_note(VECTORS_MISSING)
    words_in_postgres = query.mode != "vector" and index.keyword_index == "postgres"
    by_words = words_in_postgres and (is_missing or query.mode == "keyword")
    indexed, total = tasks.counts(resources.pool, index.id, lost_too=by_words)
    if is_missing and not by_words:
        indexed = 0
    return Coverage(indexed_files=indexed, total_files=total, stale_files=stale)
