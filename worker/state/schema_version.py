"""Compares the schema of the database with the one of this release: a process that needs a newer one waits for it."""

from __future__ import annotations

import functools
from importlib.resources import files
from threading import Event
from typing import Any

import structlog
from psycopg import Connection, OperationalError

from schemas.errors import SchemaBehind
from worker.state.connections import BRIEF, BoundedConnection
from worker.state.queries import is_true, load

#: Seconds between two looks of a process that waits.
LOOK_SECONDS = 1.0

_SQL = load("schema_version")

log = structlog.get_logger()


@functools.cache
def needed() -> tuple[str, ...]:
    """The names of this release's migrations, in their order."""
    names = (each.name for each in (files("schemas") / "migrations").iterdir())
    return tuple(sorted(name.removesuffix(".sql") for name in names if name.endswith(".sql")))


def missing(connection: Connection[Any]) -> list[str]:
    """The migrations that the database lacks. What a newer release has added to it does no harm."""
    if not is_true(connection, _SQL["has_table"]):
        return list(needed())
    applied = {name for (name,) in connection.execute(_SQL["applied"])}
    return [name for name in needed() if name not in applied]


class SchemaGate:
    """Lets nobody use a database that lacks migrations."""

    def __init__(self) -> None:
        self._is_open = False

    def check(self, connection: Connection[Any]) -> None:
        """Raise `SchemaBehind` until no migration is missing; from then on it asks no more. Leaves no transaction."""
        if self._is_open:
            return
        lacking = missing(connection)
        connection.rollback()
        if lacking:
            raise SchemaBehind(
                f"The database lacks {len(lacking)} of this release's migrations, from {lacking[0]} on; run `foldex "
                "migrate`, and try again."
            )
        self._is_open = True


def wait(database_url: str, stop: Event | None = None) -> None:
    """Return once the database lacks no migration, or `stop` is set. Logs once why it waits, and when it goes on."""
    stop, told = stop or Event(), ""
    while not stop.is_set():
        try:
            with BoundedConnection.open(database_url, BRIEF) as connection:
                lacking = missing(connection)
        except OperationalError as error:
            why, more = "Postgres does not answer; waiting for it", {"error": str(error)}
        else:
            if not lacking:
                break
            why = "the database lacks migrations of this release; waiting until `foldex migrate` has run"
            more = {"missing": " ".join(lacking)}
        if why != told:
            log.warning(why, **more)
        told = why
        stop.wait(LOOK_SECONDS)
    if told and not stop.is_set():
        log.info("the database is up to date; going on")
