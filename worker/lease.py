"""A worker's time-limited claim, renewed by a thread on its own connection while the work goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
import structlog

from schemas.errors import LeaseLost
from worker.state import tasks

#: Seconds between renewals: a quarter of the lease.
BEAT = tasks.LEASE.total_seconds() / 4

log = structlog.get_logger()


class Lease:
    """Who holds the claim, and whether it still holds."""

    def __init__(self) -> None:
        self.owner: UUID = uuid4()
        self._lost = threading.Event()
        self._done = threading.Event()

    def check(self) -> None:
        """Raise `LeaseLost` once the task's writes are not wanted any more, or could not be renewed in time."""
        if self._lost.is_set():
            raise LeaseLost("the task was cancelled, deleted or taken over")

    def keep(self, database_url: str, task_id: UUID) -> None:
        """Renew until `done`; run in a thread, because the work may be busy for longer than a lease lasts."""
        renewed = time.monotonic()
        connection: psycopg.Connection | None = None
        while not self._done.wait(BEAT):
            try:
                connection = connection or psycopg.connect(database_url, autocommit=True, connect_timeout=3)
                if not tasks.beat(connection, task_id, self.owner):
                    self._lost.set()
                renewed = time.monotonic()
            except psycopg.Error as error:
                log.warning("lease not renewed", task_id=str(task_id), error=str(error))
                connection = None
                if time.monotonic() - renewed > tasks.LEASE.total_seconds():
                    self._lost.set()
        if connection is not None:
            connection.close()

    def end(self) -> None:
        """Stop renewing."""
        self._done.set()


@contextmanager
def leased(database_url: str, task_id: UUID) -> Iterator[Lease]:
    """A lease that is renewed until the block ends."""
    lease = Lease()
    thread = threading.Thread(target=lease.keep, args=(database_url, task_id), name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.end()
        thread.join()
