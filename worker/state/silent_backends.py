"""Server processes that block others: their client fell silent, or they hold locks for long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from worker.state.connections import EXPENDABLE, IDLE_SECONDS
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

_SQL = load("silent_backends")


#: Time for which an idle transaction of ours may block others before it is ended. The limits of a connection are
#: shorter, but a pooler or another release may not set them.
BLOCKING = timedelta(seconds=60)
#: Time for which a session holds locks before operators are warned, and the maximum number of sessions in a warning.
NAMED_AFTER, MAX_NAMED = timedelta(seconds=10), 3


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session that has long held locks in `tables`, and the number of sessions that wait for it now."""

    pid: int
    application: str
    since: datetime | None
    tables: str | None
    waiting: int

    def __str__(self) -> str:
        held = f"rows or locks of {self.tables}" if self.tables else "a lock"
        since = f" since {self.since.astimezone(UTC):%H:%M:%S} UTC" if self.since else ""
        return (
            f"Postgres process {self.pid} ({self.application or 'no application_name'}) has held {held}{since}, and "
            f"{self.waiting} other sessions wait for it; end its transaction, or run "
            f"SELECT pg_terminate_backend({self.pid})."
        )


def blockers(pool: Pool, patience: timedelta = NAMED_AFTER) -> list[Blocker]:
    """Return sessions, ours or not, that block others, the longest first."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(Blocker))
        return cursor.execute(_SQL["blockers"], {"patience": patience, "limit": MAX_NAMED}).fetchall()


def end_blocking(
    pool: Pool, patience: timedelta = BLOCKING, idle: timedelta = timedelta(seconds=IDLE_SECONDS)
) -> list[int]:
    """End API and worker connections that are idle in a transaction and have blocked others for `patience`.

    Connections of migrations, backups and people are never ended: `blockers` names them.
    """
    with autocommit(pool) as connection:
        values = {"applications": list(EXPENDABLE), "patience": patience, "idle": idle}
        return [pid for (pid,) in connection.execute(_SQL["end_blocking"], values).fetchall()]


def reap(pool: Pool, silence: timedelta = timedelta(seconds=IDLE_SECONDS)) -> list[int]:
    """End connections whose client neither sent nor read anything for `silence` in the middle of a statement.

    Postgres lets them wait forever with all locks of their transactions, and applies no time limit there. Observations
    are kept in a table, so that any process can continue. Runs in autocommit, so a sweep that is itself stopped holds
    no rows.
    """
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["reap"], {"applications": list(EXPENDABLE), "silence": silence}).fetchall()
        return [pid for (pid,) in rows]


def take_time(connection: Connection[Any]) -> None:
    """Let a transaction stay idle for longer: it holds no locks that others need, and its reader works between rows."""
    connection.execute(_SQL["take_time"])
