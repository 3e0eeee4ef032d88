"""Selects the next task: projects take turns, whichever task a message names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from worker.state.index import tasks
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load

#: Kinds of work. Projects take turns for each kind separately.
Work = Literal["listing", "index", "tree"]
#: Number of listings among which a worker looks for one with unlocked rows.
MAX_CANDIDATES = 20

_SQL = load("index/turns")


@dataclass(frozen=True, slots=True)
class Reach:
    """Work that a worker can do: not what `me` has just left, other hosts' folders, or refused stores and contents."""

    me: UUID | None = None
    host: str | None = None
    #: Refused stores and contents, with the reasons.
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, object]:
        """The query parameters."""
        return {"me": self.me, "host": self.host, "refused": [*self.refused]}


#: All work.
ANYTHING = Reach()


def is_in_reach(pool: Pool, task_id: UUID, reach: Reach) -> bool:
    """Return whether a worker can see the directories and the folder that a task needs, as far as it knows."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["is_in_reach"], {"task_id": task_id, **reach.values})


def fairest(
    pool: Pool,
    *,
    preferred: UUID | None = None,
    only_small: bool = False,
    only_words: bool = False,
    reach: Reach = ANYTHING,
) -> UUID | None:
    """Return the task that is due for a worker, `preferred` on a tie.

    Considers only tasks in its `reach`, and optionally `only_small` ones, or tasks with files that lack their words.
    """
    values: dict[str, object] = {"preferred": preferred, "only_small": only_small, "only_words": only_words}
    values |= {**tasks.small_bounds(), **reach.values}
    # the statement locks all open tasks, and a transaction would hold them until another message arrives from here
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["fairest"], values).fetchone()
        return row[0] if row else None


def words_wait(pool: Pool, *, only_small: bool = False, reach: Reach = ANYTHING) -> bool:
    """Return whether any task that `fairest` considers has files without their words."""
    values = {"only_small": only_small, **tasks.small_bounds(), **reach.values}
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["words_wait"], values)


def listings(pool: Pool, preferred: UUID, reach: Reach = ANYTHING) -> list[UUID]:
    """Return tasks that wait for a listing, the next one first, `preferred` on a tie; see `fairest`."""
    values = {"preferred": preferred, "limit": MAX_CANDIDATES, **reach.values}
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["listings"], values).fetchall()
    return [id_ for (id_,) in rows]


def take(pool: Pool, project_id: str, work: Work) -> None:
    """Record that a project is being served, so that others come first next time."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["take"], {"project_id": project_id, "work": work})
