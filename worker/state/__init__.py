"""Postgres, the truth: connections, migrations and named queries."""

from __future__ import annotations

import functools
import re
import select
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.sql import SQL
from psycopg_pool import ConnectionPool

Pool = ConnectionPool[Connection[TupleRow]]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@functools.cache
def load(name: str) -> dict[str, SQL]:
    """The queries of `worker/state/{name}.sql`, by the name in the `-- name:` line above each."""
    _, *parts = _NAME.split(resources.files("worker.state").joinpath(f"{name}.sql").read_text())
    # psycopg asks for literal strings to keep user input out of SQL; a file of this package is as good
    return {key: SQL(text.strip()) for key, text in zip(parts[::2], parts[1::2], strict=True)}


def open_pool(database_url: str, *, max_size: int = 4, **options: Any) -> Pool:
    """A pool that checks a connection before it lends it, so that a restart of Postgres is not seen by its users."""
    return ConnectionPool(
        database_url,
        min_size=0,
        max_size=max_size,
        timeout=20,
        check=_check,
        open=True,
        **options,
    )


def _check(connection: Connection[Any]) -> None:
    """Ask a server only where something waits to be read: one that ends says goodbye, an idle one says nothing.

    Raises `OperationalError`, for the pool to take another connection.
    """
    heard = select.poll()
    heard.register(connection.fileno(), select.POLLIN)
    if heard.poll(0):
        ConnectionPool.check_connection(connection)


@contextmanager
def reading(pool: Pool) -> Iterator[Connection[TupleRow]]:
    """A connection for single statements that read: each is one round trip, which a transaction would make three."""
    with pool.connection() as connection:
        connection.autocommit = True
        try:
            yield connection
        finally:
            if not connection.closed:
                connection.autocommit = False


#: Any number that no other user of the database takes for the first half of an advisory lock.
_LOCKS = 0x466F6C64


#: A machine that is gone keeps no lock for longer than half a minute.
_ALIVE = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4"


@contextmanager
def alone(database_url: str, work: str, *, seconds: int = 0) -> Iterator[bool]:
    """Whether this process is the only one at some work, until the block ends or the process dies.

    After `seconds`, where they are given, another may begin: a process that is stopped keeps nobody waiting for ever.
    """
    with lone(database_url, work, seconds=seconds) as connection:
        yield connection is not None


@contextmanager
def lone(database_url: str, work: str, *, seconds: int = 0) -> Iterator[Connection[TupleRow] | None]:
    """The connection that makes this process the only one at some work, while it lives; None: another process is."""
    options = f"{_ALIVE} -c idle_session_timeout={seconds}s"
    with psycopg.connect(database_url, autocommit=True, connect_timeout=3, options=options) as connection:
        row = connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCKS, work)).fetchone()
        yield connection if row is not None and row[0] else None
