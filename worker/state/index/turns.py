"""Which task is next: projects take turns, whichever task a message names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal
from uuid import UUID

from worker.state.index.tasks import MAX_SMALL_BYTES
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Kinds of work, of each of which the projects take turns.
Work = Literal["listing", "index", "tree"]
#: Listings among which a worker looks for one whose rows nobody locks.
MAX_CANDIDATES = 20

_SQL = load("index/turns")


def fairest(
    pool: Pool,
    *,
    preferred: UUID | None = None,
    most_files: int | None = None,
    refused: Collection[str] = (),
    me: UUID | None = None,
) -> UUID | None:
    """Return the task that is due for the worker `me`, `preferred` on a tie.

    Considers only small tasks, with at most `most_files` files left, if given, and none that needs what is `refused`.
    """
    values = {
        "preferred": preferred,
        "most_files": most_files,
        "most_bytes": MAX_SMALL_BYTES,
        "refused": [*refused],
        "me": me,
    }
    # the statement locks all open tasks, and a transaction would hold them until another message arrives from here
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["fairest"], values).fetchone()
        return row[0] if row else None


def listings(pool: Pool, preferred: UUID, refused: Collection[str] = (), *, me: UUID | None = None) -> list[UUID]:
    """Return tasks that wait for a listing, the next one first, `preferred` on a tie; see `fairest`."""
    values = {"preferred": preferred, "limit": MAX_CANDIDATES, "refused": [*refused], "me": me}
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["listings"], values).fetchall()
    return [id_ for (id_,) in rows]


def take(pool: Pool, project_id: str, work: Work) -> None:
    """Note that a project is being served, so that others come first next time."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["take"], {"project_id": project_id, "work": work})
