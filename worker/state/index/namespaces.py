"""Rows of `namespace_name`: every name that was ever used, and the names to check again.

An upsert creates its namespace. A writer that is suspended during the purge of its index would create the namespace
again, and no row would refer to it. So names of deleted indexes are checked for months, at growing intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: The first interval between checks of a name; it grows with the time since its index was deleted.
FIRST_PAUSE = timedelta(minutes=10)
#: The longest interval between checks of a name.
LONGEST_PAUSE = timedelta(weeks=1)
#: Maximum time for which a process may be suspended and still write afterwards.
WATCHED = timedelta(days=180)
#: Maximum number of names that one sweep checks.
MAX_NAMES = 20

_SQL = load("index/namespaces")


@dataclass(frozen=True, slots=True)
class RetiredNamespace:
    """The name of a deleted index's namespace."""

    name: str
    vector_store: str
    keyword_index: str


def register(connection: Connection[Any], index_ids: Sequence[UUID], suffix: str) -> None:
    """Record that these indexes have a derived namespace with this suffix, which is deleted with them."""
    connection.execute(_SQL["register"], {"index_ids": list(index_ids), "suffix": suffix})


def take_due(pool: Pool, stores: Sequence[str]) -> list[RetiredNamespace]:
    """Return the names to check in some stores now; each is due after the first pause, without `note_checked`."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(RetiredNamespace))
        values = {"pause": FIRST_PAUSE, "limit": MAX_NAMES, "stores": [*stores]}
        return cursor.execute(_SQL["take_due"], values).fetchall()


def note_checked(pool: Pool, name: str) -> None:
    """Record that the store currently has nothing under this name."""
    values = {"name": name, "pause": FIRST_PAUSE, "longest": LONGEST_PAUSE, "watched": WATCHED}
    with pool.connection() as connection:
        connection.execute(_SQL["checked"], values)
