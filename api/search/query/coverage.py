"""Computes how much of its folder an answer covers."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from api.http.lookup_cache import LookupCache
from schemas.queries.search import Coverage, Note, Query
from worker.resources import Resources
from worker.state.index import tasks
from worker.state.index.tools import Index
from worker.state.pool import Pool


class Covered(NamedTuple):
    """What an answer covers, and the number of files that have vanished and whose removal is held."""

    coverage: Coverage
    held: int

    def notes(self) -> list[Note]:
        """A note on the files that have vanished."""
        if not self.held:
            return []
        detail = (
            f"{self.held} files have vanished from the folder and stay searchable; their hits are stale. Check the "
            'folder, and reindex with {"allow_removals": true} if they were removed on purpose.'
        )
        return [Note(code="removals_held", detail=detail)]


def coverage(
    resources: Resources, index: Index, query: Query, stale_files: int | None, *, vectors_missing: bool
) -> Covered:
    """Count the files an answer covers.

    A lost namespace does not affect keywords in Postgres; without them, the answer covers no file. While the namespace
    is rewritten, `hybrid` counts only files with vectors, because no note says that some are missing. Counts may be
    `CACHE_SECONDS` old, unless the query asks to compare the folder.
    """
    keywords_in_postgres = query.mode != "vector" and index.keyword_index == "postgres"
    by_keywords = keywords_in_postgres and (vectors_missing or query.mode == "keyword")
    counts = _counts(resources.pool)
    read = counts.get if query.refresh == "none" else counts.fresh
    indexed, total, held = read((index.id, by_keywords)) or (0, 0, 0)
    if vectors_missing and not by_keywords:
        indexed = 0
    return Covered(Coverage(indexed_files=indexed, total_files=total, stale_files=stale_files), held)


@lru_cache(maxsize=1)
def _counts(pool: Pool) -> LookupCache[tuple[UUID, bool], tuple[int, int, int]]:
    """The numbers of files, by index and by whether files that lost their vectors count as indexed."""
    return LookupCache(lambda key: tasks.counts_with_held(pool, key[0], include_lost=key[1]))
