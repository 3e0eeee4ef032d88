"""Rows of `namespace_name`: every name that was ever given, and which of them to look at again.

An upsert creates its namespace. A writer that sleeps through the purge of its index would bring the namespace back, and
no row would name it. So names of deleted indexes are looked at for months, at growing pauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from psycopg.rows import class_row

from worker.state.postgres import Pool, load

#: The pauses between two looks at a name grow with the time since its index went, from the first to the longest.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=10), timedelta(weeks=1)
#: Nobody sleeps for longer and writes when awake.
WATCHED = timedelta(days=180)
#: Names that one sweep looks at.
MAX_NAMES = 20

_SQL = load("index/namespaces")


@dataclass(frozen=True, slots=True)
class Retired:
    """The name of a deleted index's namespace."""

    name: str
    vector_store: str
    keyword_index: str


def take_due(pool: Pool, limit: int = MAX_NAMES) -> list[Retired]:
    """Names that are to be looked at now; each is due again after the first pause, unless `checked` follows."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Retired))
        return cursor.execute(_SQL["take_due"], {"pause": FIRST_PAUSE, "limit": limit}).fetchall()


def checked(pool: Pool, name: str) -> None:
    """The store has nothing of this name now."""
    values = {"name": name, "pause": FIRST_PAUSE, "longest": LONGEST_PAUSE, "watched": WATCHED}
    with pool.connection() as connection:
        connection.execute(_SQL["checked"], values)
