"""Finds the chunks that define what a query names."""

from __future__ import annotations

from collections.abc import Collection

from api.search.query.search import IndexSearch
from api.search.rank.definition_query import names_in_query
from schemas.queries.search import Filters
from worker.state.search import found_chunks, symbols


def defining_chunks(search: IndexSearch) -> Collection[str]:
    """Chunks that pass the filters and hold the first line of a definition that a query names."""
    names = list(dict.fromkeys(name for text in search.request.texts for name in names_in_query(text)))
    if not names:
        return ()
    pool = search.resources.pool
    definitions = symbols.named(pool, search.index.id, names)
    defining = found_chunks.containing_lines(pool, [(file_id, line) for file_id, line, *_ in definitions])
    if search.request.filters != Filters():
        defining = found_chunks.passing(pool, defining, search.filters.values)
    return set(defining)
