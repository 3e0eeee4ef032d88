"""Work that one process at a time may do, guarded by an advisory lock of Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow

from worker.state.connections import BRIEF, BoundedConnection
from worker.state.queries import is_true, load

#: The first half of our advisory locks, which no other user of the database has.
_LOCK_CLASS = 0x466F6C64

_SQL = load("exclusive")


@contextmanager
def try_exclusive(database_url: str, work: str, *, seconds: int = 0) -> Iterator[bool]:
    """Yield whether this process is the only one that does `work`, until the block ends or the process dies.

    If `seconds` is given, another process may begin after that time: a stopped process does not block others forever.
    """
    with exclusive_connection(database_url, work, seconds=seconds) as connection:
        yield connection is not None


@contextmanager
def exclusive_connection(database_url: str, work: str, *, seconds: int = 0) -> Iterator[Connection[TupleRow] | None]:
    """Yield the connection whose lock makes this process the only one that does `work`; None if another does it.

    The lock lasts until the block or the connection ends. The server ends the connection after `seconds` without a
    statement, such as that of `keep_lock`, unless `seconds` is 0.
    """
    lock = {"class": _LOCK_CLASS, "work": work}
    with BoundedConnection.open(database_url, BRIEF, f"idle_session_timeout={seconds}s") as connection:
        is_free = is_true(connection, _SQL["try_lock"], lock)
        yield connection if is_free else None
        if is_free:
            # the server notices a closed connection only a moment later
            with suppress(OperationalError):
                connection.execute(_SQL["unlock"], lock)


def keep_lock(lock: Connection[Any]) -> None:
    """Send a statement, so that the server does not end the lock's connection.

    Raises `OperationalError` if the server has already ended it, and the lock with it.
    """
    lock.execute(_SQL["keep"])
