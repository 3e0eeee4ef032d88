"""Compares the database's schema with this release's. A process that needs a newer schema waits for it."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from threading import Event
from typing import Any

import structlog
from psycopg import Connection, OperationalError

from schemas.errors import SchemaBehind
from worker.state.connections import BRIEF, BoundedConnection
from worker.state.queries import is_true, load

#: The migration whose tables `schema.sql` creates: databases that lack it are too old.
BASELINE = "0043_missing_files"
#: Seconds between two checks of a waiting process.
LOOK_SECONDS = 1.0

_SQL = load("schema_version")

log = structlog.get_logger()


def needed() -> tuple[str, ...]:
    """Return the names of the baseline and of this release's migrations, in their order."""
    names = (each.name for each in (files("schemas") / "migrations").iterdir())
    return (BASELINE, *sorted(name.removesuffix(".sql") for name in names if name.endswith(".sql")))


def script(name: str) -> Traversable:
    """Return the file of the baseline or of a migration."""
    return files("schemas") / ("schema.sql" if name == BASELINE else f"migrations/{name}.sql")


def missing(connection: Connection[Any]) -> list[str]:
    """Return the baseline and migrations that the database lacks. Additions of a newer release do no harm.

    Raises `SchemaBehind` if the database is older than the baseline: this release cannot migrate it.
    """
    applied: set[str] = set()
    if is_true(connection, _SQL["has_table"]):
        applied = {name for (name,) in connection.execute(_SQL["applied"])}
    if applied and BASELINE not in applied:
        raise SchemaBehind(
            "The database is older than the first release; check out commit 0f3f536b of 2026-11-29, run `foldex "
            "migrate` there, and then migrate with this release."
        )
    return [name for name in needed() if name not in applied]


class SchemaGate:
    """Keeps callers from using a database that lacks migrations."""

    def __init__(self) -> None:
        self._is_open = False

    def check(self, connection: Connection[Any]) -> None:
        """Raise `SchemaBehind` while a migration is missing; then stop checking. Leaves no transaction open."""
        if self._is_open:
            return
        try:
            lacking = missing(connection)
        finally:
            connection.rollback()
        if lacking:
            raise SchemaBehind(
                f"The database lacks {len(lacking)} of this release's migrations, from {lacking[0]} on; run `foldex "
                "migrate`, and try again."
            )
        self._is_open = True


def wait(database_url: str, stop: Event | None = None) -> None:
    """Return once the database lacks no migration, or `stop` is set. Logs once why it waits, and when it continues."""
    stop, told = stop or Event(), ""
    while not stop.is_set():
        try:
            with BoundedConnection.open(database_url, BRIEF) as connection:
                lacking = missing(connection)
        except OperationalError as error:
            why, more = "Postgres does not answer; waiting for it", {"error": str(error)}
        except SchemaBehind as error:
            why, more = error.message, {}
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
