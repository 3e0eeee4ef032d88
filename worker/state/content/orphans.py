"""Rows of `content_stray`: objects that no node names, or none yet, so that nothing is stored that nobody knows of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from schemas.errors import Conflict
from worker.state.postgres import Pool, load

#: Time between two runs that delete strays.
EVERY = timedelta(minutes=5)
#: What could not be deleted is tried again after so long.
PAUSE = timedelta(minutes=5)

_SQL = load("content/orphans")


def announce(pool: Pool, keys: Sequence[str], grace: timedelta) -> None:
    """Note that objects are about to be stored; those that no `claim` follows for within `grace` are deleted."""
    with pool.connection() as connection:
        connection.execute(_SQL["announce"], {"keys": list(keys), "grace": grace})


def take_back(connection: Connection[Any], keys: Sequence[str]) -> None:
    """Note that objects which were announced are not stored after all."""
    connection.execute(_SQL["forget"], {"keys": list(keys)})


def claim(connection: Connection[Any], keys: Sequence[str]) -> None:
    """Let nodes name announced objects, from this transaction's end on; raises `Conflict` if one was given up."""
    if connection.execute(_SQL["claim"], {"keys": list(keys)}).rowcount != len(keys):
        raise Conflict("The upload took so long that what came first is deleted again; send it anew, in smaller parts.")


def leave(connection: Connection[Any], keys: Sequence[str]) -> None:
    """Note that nodes name these objects no more, from this transaction's end on."""
    connection.execute(_SQL["leave"], {"keys": list(keys)})


def take(pool: Pool, keys: Sequence[str]) -> list[str]:
    """Those of the keys that no node names nor can come to name any more: their objects may be deleted."""
    with pool.connection() as connection:
        return [key for (key,) in connection.execute(_SQL["take"], {"keys": list(keys)}).fetchall()]


def forget(pool: Pool, keys: Sequence[str]) -> None:
    """Note that these objects are deleted."""
    with pool.connection() as connection:
        connection.execute(_SQL["forget"], {"keys": list(keys)})


def expect_run(pool: Pool, every: timedelta = EVERY) -> bool:
    """Whether objects are due, and the last run over them was begun more than `every` ago; then it is begun now."""
    with pool.connection() as connection:
        return connection.execute(_SQL["expect"], {"every": every}).rowcount > 0


def give_up(pool: Pool, limit: int) -> list[str]:
    """Keys that are due and that no node can come to name any more, the longest due first."""
    with pool.connection() as connection:
        return [key for (key,) in connection.execute(_SQL["give_up"], {"limit": limit}).fetchall()]


def postpone(pool: Pool, keys: Sequence[str]) -> None:
    """Leave objects that could not be deleted for later."""
    with pool.connection() as connection:
        connection.execute(_SQL["postpone"], {"keys": list(keys), "pause": PAUSE})
