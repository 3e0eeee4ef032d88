"""Rows of `content_stray`: objects that no node refers to, or none yet. So every stored object is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from schemas.errors import Conflict
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Time between two runs that delete strays.
RUN_INTERVAL = timedelta(minutes=5)
#: Time before an object that could not be deleted is tried again.
RETRY_AFTER = timedelta(minutes=5)

_SQL = load("content/orphans")


def announce(pool: Pool, keys: Sequence[str], grace: timedelta) -> None:
    """Record that objects are about to be stored; those without a `claim` within `grace` are deleted."""
    with pool.connection() as connection:
        connection.execute(_SQL["announce"], {"keys": list(keys), "grace": grace})


def take_back(connection: Connection[Any], keys: Sequence[str]) -> None:
    """Record that announced objects are not stored after all."""
    connection.execute(_SQL["forget"], {"keys": list(keys)})


def claim(connection: Connection[Any], keys: Sequence[str]) -> None:
    """Let nodes refer to announced objects when this transaction ends.

    Raises `Conflict` if one was given up.
    """
    if connection.execute(_SQL["claim"], {"keys": list(keys)}).rowcount != len(keys):
        raise Conflict(
            "The upload took so long that its first files were deleted; send it again in several smaller uploads."
        )


def leave(connection: Connection[Any], keys: Sequence[str]) -> None:
    """Record that no node refers to these objects once this transaction ends."""
    connection.execute(_SQL["leave"], {"keys": list(keys)})


def take(pool: Pool, keys: Sequence[str]) -> list[str]:
    """Return the keys whose objects may be deleted: no node refers to them now, or can do so later."""
    with pool.connection() as connection:
        return [key for (key,) in connection.execute(_SQL["take"], {"keys": list(keys)}).fetchall()]


def forget(pool: Pool, keys: Sequence[str]) -> None:
    """Record that these objects are deleted."""
    with pool.connection() as connection:
        connection.execute(_SQL["forget"], {"keys": list(keys)})


def expect_run(pool: Pool) -> bool:
    """Return whether objects are due and the last run over them began over `RUN_INTERVAL` ago; if so, begin a run."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["expect"], {"every": RUN_INTERVAL}).rowcount > 0


def give_up(pool: Pool, limit: int) -> list[str]:
    """Return due keys that no node can refer to later, the longest due first."""
    with pool.connection() as connection:
        return [key for (key,) in connection.execute(_SQL["give_up"], {"limit": limit}).fetchall()]


def postpone(pool: Pool, keys: Sequence[str]) -> None:
    """Postpone the deletion of objects that could not be deleted."""
    with pool.connection() as connection:
        connection.execute(_SQL["postpone"], {"keys": list(keys), "pause": RETRY_AFTER})
