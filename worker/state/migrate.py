"""Bring a database's tables up to this release."""

from __future__ import annotations

from importlib.resources import as_file, files

import psycopg
import structlog
import yoyo

from worker.state.queries import load

#: An advisory lock number that no other user of the database uses.
MIGRATION_LOCK = 0x466F6C64
#: The migration that grants projects the places that their tools already use.
GRANTS = "0016_grants"

_SQL = load("access/grants")

log = structlog.get_logger()


def migrate(database_url: str) -> None:
    """Apply the missing migrations, one process at a time.

    It uses Postgres' own lock: unlike a row that says "locked", it is released when its process dies.
    """
    with psycopg.connect(database_url, autocommit=True) as lock, as_file(files("schemas") / "migrations") as directory:
        lock.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        scheme, rest = database_url.split("://", 1)
        backend = yoyo.get_backend(f"{scheme.split('+')[0]}+psycopg://{rest}")
        try:
            missing = backend.to_apply(yoyo.read_migrations(str(directory)))
            backend.apply_migrations(missing)
            if any(migration.id == GRANTS for migration in missing):
                for project_id, place, *_ in lock.execute(_SQL["list"], {"project_id": None}).fetchall():
                    log.warning("granted because a tool already uses it", project_id=project_id, place=place)
        finally:
            backend.connection.close()
