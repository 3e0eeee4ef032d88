"""Brings a database's tables up to this release: a new one gets `schema.sql`, and each the migrations that it lacks.

A migration is applied and recorded in one transaction, so a process that is killed leaves all of it or nothing. It
waits for a table only briefly, and tries again. One that builds an index without blocking writers cannot be in a
transaction: it says `-- transactional: false`, and an unfinished index is built again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import structlog
import yoyo
from psycopg import Connection
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Identifier

from worker.state.connections import IDLE_SECONDS, Application
from worker.state.queries import is_true, load
from worker.state.schema_version import BASELINE, missing, script

#: An advisory lock number that no other user of the database uses.
MIGRATION_LOCK = 0x466F6C64
#: Seconds for which a migration waits for a table's lock: other users of the table queue up behind it.
LOCK_SECONDS = 2
#: Seconds until it tries again, and between two checks whether another process has finished.
PAUSE_SECONDS = 1.0
#: Seconds without a statement after which the server ends the connection, and lets another process migrate.
FROZEN_SECONDS = 30

_SQL = load("migrate")
_BUILT_INDEX = re.compile(
    r"\bCREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)", re.IGNORECASE
)

log = structlog.get_logger()


def migrate(
    database_url: str, applied: Callable[[str, float], None] = lambda *_: None, *, only_new: bool = False
) -> None:
    """Apply the missing migrations, one process at a time. Calls `applied` with the name and the seconds of each.

    With `only_new`, a database that has tables keeps them as they are. Raises `SchemaBehind` if the database is older
    than the first release.
    """
    with _hold(database_url) as backend:
        lacking = missing(backend.connection)
        if only_new and BASELINE not in lacking:
            return
        backend.ensure_internal_schema_updated()
        for name in lacking:
            with as_file(script(name)) as path:
                began = time.monotonic()
                _apply(backend, yoyo.migrations.Migration(name, str(path), str(path.parent)))
                applied(name, time.monotonic() - began)


@contextmanager
def _hold(database_url: str) -> Iterator[yoyo.backends.DatabaseBackend]:
    """Yield the database, while this process is the only one that migrates it.

    Postgres' own lock is released when its process dies. Other processes poll for it. A statement that waits for the
    lock would block the build of an index, which waits for all earlier statements.
    """
    backend = yoyo.get_backend(_address(database_url))
    try:
        while not is_true(backend.connection, _SQL["try_lock"], {"lock": MIGRATION_LOCK}):
            time.sleep(PAUSE_SECONDS)
        # the row of a process that was killed
        backend.break_lock()
        yield backend
    finally:
        backend.connection.close()


def _address(database_url: str) -> str:
    """Return the address for yoyo, with the name and the limits of its connection."""
    url = urlsplit(database_url)
    given = dict(parse_qsl(url.query))
    given["application_name"] = Application.MIGRATE
    limits = {
        "lock_timeout": f"{LOCK_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS:g}s",
        "idle_session_timeout": f"{FROZEN_SECONDS}s",
        # a killed process does not complete its index
        "client_connection_check_interval": "2s",
    }
    options = " ".join(f"-c {name}={value}" for name, value in limits.items())
    given["options"] = f"{options} {given.get('options', '')}".strip()
    scheme = f"{url.scheme.split('+')[0]}+psycopg"
    return url._replace(scheme=scheme, query=urlencode(given, quote_via=quote)).geturl()


def _apply(backend: yoyo.backends.DatabaseBackend, migration: yoyo.migrations.Migration) -> None:
    """Apply a migration, and retry until the tables that it changes are free."""
    is_told = False
    migration.load()
    apply = _in_one_transaction if migration.use_transactions else _without_transaction
    while True:
        try:
            apply(backend, migration)
        except (DeadlockDetected, LockNotAvailable) as error:
            if not is_told:
                log.warning("a migration waits for a table that another session holds", error=str(error))
                is_told = True
        else:
            return
        time.sleep(PAUSE_SECONDS)


def _in_one_transaction(backend: yoyo.backends.DatabaseBackend, migration: yoyo.migrations.Migration) -> None:
    with backend.transaction():
        migration.process_steps(backend, "apply")
        _note(backend, migration)


def _without_transaction(backend: yoyo.backends.DatabaseBackend, migration: yoyo.migrations.Migration) -> None:
    """Run statements that block nobody, and so may wait for any lock."""
    connection: Connection[TupleRow] = backend.connection
    connection.execute(_SQL["be_patient"])
    built = [name.lower() for name in _BUILT_INDEX.findall(Path(migration.path).read_text())]
    for (name,) in connection.execute(_SQL["unfinished"], {"names": built}).fetchall():
        log.warning("an index was not built to its end; building it anew", index=name)
        connection.execute(SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(Identifier(name)))
    migration.process_steps(backend, "apply")
    connection.execute(_SQL["be_brief"])
    with backend.transaction():
        _note(backend, migration)


def _note(backend: yoyo.backends.DatabaseBackend, migration: yoyo.migrations.Migration) -> None:
    backend.mark_one(migration, log=False)
    backend.log_migration(migration, "apply")
