"""Computes how much of its folder an answer covers."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from api.http.lookup_cache import LookupCache
from api.http.sight import SeenIndex
from api.search.query.index_search import IndexSearch
from api.search.text.visibility import are_counted
from schemas.queries.search import Coverage, Mode, Note, Query
from schemas.wording import noun
from worker.resources import Resources
from worker.state.index import counting
from worker.state.index.counting import IndexCounts
from worker.state.pool import Pool


class Covered(NamedTuple):
    """The coverage of an answer by the counts of its index, and its search mode; `whole` if all may be counted."""

    coverage: Coverage
    counts: IndexCounts
    mode: Mode
    whole: bool

    def notes(self) -> list[Note]:
        """Notes on the files that have vanished, and on vectors that are still to come."""
        notes = []
        held = self.counts.held_files
        if held and self.whole:
            gone = noun(
                held, "file has vanished from the folder and stays", "files have vanished from the folder and stay"
            )
            detail = (
                f"{held:,} {gone} searchable, marked as stale. Check the folder, and reindex with "
                f'{{"allow_removals": true}} if {noun(held, "it was", "they were")} removed on purpose.'
            )
            notes.append(Note(code="removals_held", detail=detail))
        if self.counts.vectors_due and self.mode != "keyword":
            until = "until their vectors follow" if self.counts.is_open else "until a reindex or retry embeds them too"
            share = f"{int(100 * self.counts.vector_share)} %" if self.whole else "Some"
            detail = f"{share} of the chunks are found by meaning so far, the others by their words only {until}."
            notes.append(Note(code="meaning_follows", detail=detail))
        return notes


def coverage(
    resources: Resources, search: IndexSearch, query: Query, stale_files: int | None, *, vectors_missing: bool
) -> Covered:
    """Count the files an answer covers, unless the caller may not read all of them.

    A lost namespace does not affect keywords in Postgres; without them, the answer covers no file. Counts may be
    `CACHE_SECONDS` old, unless the query asks to compare the folder.
    """
    index = search.index
    keywords_in_postgres = query.mode != "vector" and index.keyword_index == "postgres"
    by_keywords = keywords_in_postgres and (vectors_missing or query.mode == "keyword")
    counts = counts_for(resources, index, query, include_lost=by_keywords)
    if not are_counted(resources.pool, index):
        return Covered(Coverage(indexed_files=None, total_files=None), counts, query.mode, whole=False)
    found = Coverage(
        indexed_files=0 if vectors_missing and not by_keywords else counts.found_files,
        total_files=counts.total_files,
        stale_files=stale_files,
        vector_share=round(counts.vector_share, 4),
    )
    return Covered(found, counts, query.mode, whole=True)


def counts_for(resources: Resources, index: SeenIndex, query: Query, *, include_lost: bool = False) -> IndexCounts:
    """Counts of the part of the index that the query can find, with files that lost their vectors or without.

    At most `CACHE_SECONDS` old, or current if the query asks to compare the folder.
    """
    counts = _counts(resources.pool)
    read = counts.get if query.refresh == "none" else counts.fresh
    return read((index.id, include_lost)) or counting.NO_COUNTS


@lru_cache(maxsize=1)
def _counts(pool: Pool) -> LookupCache[tuple[UUID, bool], IndexCounts]:
    """The counts by index, and by whether files that lost their vectors count as found."""
    return LookupCache(lambda key: counting.counts(pool, key[0], include_lost=key[1]))
