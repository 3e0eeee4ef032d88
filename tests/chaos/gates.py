"""Breakpoints from outside: triggers in the test's own database, which wait for an advisory lock held by the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Self

import psycopg

TRIGGERS = Path(__file__).with_name("gates.sql").read_text()
#: Matches every project.
ANY = ""

#: Far from any key that the product uses for its own locks.
_keys = count(7_000_000_000)


@dataclass
class Gates:
    """The gates of one database. A separate connection holds each closed gate, so that it opens if the test dies."""

    url: str
    _closed: dict[tuple[str, str], tuple[int, psycopg.Connection]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def open_in(cls, url: str) -> Iterator[Self]:
        """Install the triggers in a migrated database. All gates are open at the end."""
        gates = cls(url)
        gates.do(TRIGGERS)
        try:
            yield gates
        finally:
            gates.open()

    def close(self, point: str, project: str) -> None:
        """Make every process that reaches `point` with work of this project wait there, inside its transaction."""
        key = next(_keys)
        connection = psycopg.connect(self.url, autocommit=True)
        connection.execute("SELECT pg_advisory_lock(%s)", (key,))
        self._closed[point, project] = key, connection
        self.do("INSERT INTO gate VALUES (%s, %s, %s)", key, point, project)

    def fail(self, point: str, project: str, sqlstate: str) -> None:
        """Make every process that reaches `point` fail with this SQLSTATE until the gates are opened."""
        self.do("INSERT INTO gate VALUES (%s, %s, %s, %s)", next(_keys), point, project, sqlstate)

    def arrived(self, point: str, project: str) -> list[int]:
        """Ports of the clients that wait at a closed gate."""
        key, connection = self._closed[point, project]
        rows = connection.execute(
            "SELECT a.client_port FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
            "WHERE l.locktype = 'advisory' AND NOT l.granted AND (l.classid::bigint << 32) + l.objid::bigint = %s",
            (key,),
        )
        return [port for (port,) in rows]

    def open(self, point: str | None = None, project: str | None = None) -> None:
        """Open one gate, or all. The transaction of a dead process that waited there is now rolled back."""
        for at in [at for at in self._closed if point is None or at == (point, project)]:
            key, connection = self._closed.pop(at)
            self.do("DELETE FROM gate WHERE key = %s", key)
            connection.close()
        if point is None:
            self.do("DELETE FROM gate")

    def do(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), values or None)
