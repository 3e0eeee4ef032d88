"""Bring a database's tables up to this release."""

from __future__ import annotations

import time
from importlib.resources import as_file, files
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
import structlog
import yoyo
from psycopg.errors import LockNotAvailable

from worker.state.connections import Application
from worker.state.queries import load

#: An advisory lock number that no other user of the database uses.
MIGRATION_LOCK = 0x466F6C64
#: The migration that grants projects the places that their tools already use.
GRANTS = "0016_grants"
#: Seconds for which a migration waits for the lock of a table: whoever wants the table meanwhile waits behind it.
LOCK_SECONDS = 2
#: Seconds until it tries again.
PAUSE_SECONDS = 1.0

_SQL = load("access/grants")

log = structlog.get_logger()


def migrate(database_url: str) -> None:
    """Apply the missing migrations, one process at a time.

    It uses Postgres' own lock: unlike a row that says "locked", it is released when its process dies.
    """
    with (
        psycopg.connect(database_url, autocommit=True, application_name=Application.MIGRATE) as lock,
        as_file(files("schemas") / "migrations") as directory,
    ):
        lock.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        backend = yoyo.get_backend(_address(database_url))
        try:
            migrations = yoyo.read_migrations(str(directory))
            missing = backend.to_apply(migrations)
            _apply(backend, migrations)
            if any(migration.id == GRANTS for migration in missing):
                for project_id, place, *_ in lock.execute(_SQL["list"], {"project_id": None}).fetchall():
                    log.warning("granted because a tool already uses it", project_id=project_id, place=place)
        finally:
            backend.connection.close()


def _address(database_url: str) -> str:
    """The address for yoyo, with the name and the limit of its connections."""
    url = urlsplit(database_url)
    given = dict(parse_qsl(url.query))
    given["application_name"] = Application.MIGRATE
    given["options"] = f"-c lock_timeout={LOCK_SECONDS}s {given.get('options', '')}".strip()
    scheme = f"{url.scheme.split('+')[0]}+psycopg"
    return url._replace(scheme=scheme, query=urlencode(given, quote_via=quote)).geturl()


def _apply(backend: yoyo.backends.DatabaseBackend, migrations: yoyo.migrations.MigrationList) -> None:
    """Apply the missing migrations, each again until the tables that it changes are free."""
    is_told = False
    while True:
        try:
            backend.apply_migrations(backend.to_apply(migrations))
        except LockNotAvailable as error:
            if not is_told:
                log.warning("a migration waits for a table that another session holds", error=str(error))
                is_told = True
        else:
            return
        time.sleep(PAUSE_SECONDS)
