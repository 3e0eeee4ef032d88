"""The languages of an index, which decide how the words of a query are searched."""

from __future__ import annotations

from collections.abc import Collection
from threading import Lock
from uuid import UUID

from cachetools import TTLCache

from worker.state.pool import Pool, autocommit
from worker.state.queries import load
from worker.tokens.languages import DEFAULT

#: Seconds for which a process caches the languages of an index.
REMEMBERED_SECONDS = 0.25
#: Maximum number of indexes whose languages a process caches.
MAX_REMEMBERED = 10_000
#: Maximum number of files that are counted, which takes some 20 ms.
MAX_COUNTED = 20_000

_SQL = load("search/languages")

_lock = Lock()
_of_indexes: TTLCache[UUID, frozenset[str]] = TTLCache(MAX_REMEMBERED, REMEMBERED_SECONDS)


def of_index(pool: Pool, index_id: UUID) -> frozenset[str]:
    """Return the languages of an index's searchable files."""
    with _lock:
        known = _of_indexes.get(index_id)
    if known is None:
        with autocommit(pool) as connection:
            rows = connection.execute(_SQL["written"], {"index_id": index_id}).fetchall()
        known = frozenset(language for (language,) in rows)
        with _lock:
            _of_indexes[index_id] = known
    return known


def others_share(pool: Pool, index_id: UUID, without: Collection[str]) -> float:
    """Return the share of an index's chunks whose files are in other languages than `DEFAULT`, 0 to 1.

    Files of the types `without` do not count. Of many files, only the first `MAX_COUNTED` do.
    """
    if of_index(pool, index_id) <= {DEFAULT}:
        return 0.0
    values = {"index_id": index_id, "default": DEFAULT, "without": sorted(without), "limit": MAX_COUNTED}
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["others_share"], values).fetchone()
        return row[0] if row else 0.0
