"""A worker's time-limited claim, renewed by a thread on its own connection while the work goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
import structlog

from schemas.errors import LeaseLost
from worker.state.index import tasks
from worker.state.postgres import BRIEF, Bounded

#: Seconds between renewals: whoever cancels is heard within 2 s, however busy Postgres is.
BEAT = tasks.LEASE.total_seconds() / 8
#: So many times the processor time that a file may take its process is ended, for what no signal interrupts. By the
#: clock it may take so many times as long again: a machine may be busy with other things.
BEYOND = 2.0
_BUSY = 10

#: No renewal waits for the disk: while that is slow all leases would run out at once, and a server that dies with the
#: latest ones gives everybody time when it is back.
_OPTION = "synchronous_commit=off"
#: Seconds that the work waits for its last renewal to end; a thread that hears nothing from Postgres ends by itself.
_LAST = 5.0

log = structlog.get_logger()


class Lease:
    """Who holds the claim, whether it still holds, and what it is used for."""

    def __init__(self) -> None:
        self.owner: UUID = uuid4()
        self._lost = threading.Event()
        self._done = threading.Event()
        self._renewed = time.monotonic()
        self._parsing_since: float | None = None
        self._worked_before = 0.0
        self._allowed = 0.0
        self._longest = 0.0

    def check(self) -> None:
        """Raise `LeaseLost` once the task's writes are not wanted any more, or could not be renewed in time.

        The clock goes on while a process is stopped, so one that wakes up late does not take its lease for valid.
        """
        if self._lost.is_set() or self._expired():
            raise LeaseLost("the task was cancelled, deleted or taken over")

    def _expired(self) -> bool:
        return time.monotonic() - self._renewed > tasks.LEASE.total_seconds()

    def parsing(self, seconds: float, longest: float | None = None) -> None:
        """Note that a file begins to be parsed: a process that dies from here on, or takes too long, died of it.

        `seconds` of processor time are allowed; `longest` is what that may take by the clock where it is bounded
        elsewhere.
        """
        self._worked_before = time.process_time()
        self._allowed = BEYOND * seconds
        self._longest = max(self._allowed * _BUSY, longest or 0.0)
        self._parsing_since = time.monotonic()

    def parsed(self) -> None:
        """Note that nothing is being parsed any more."""
        self._parsing_since = None

    def keep(self, database_url: str, task_id: UUID) -> None:
        """Renew until `end`; run in a thread, because the work may be busy for longer than a lease lasts."""
        connection: Bounded | None = None
        while not self._done.wait(BEAT):
            self._end_endless_parsing()
            if self._expired():
                # others have the files by now, though the task is still wanted: to renew would be to go on for nothing
                continue
            try:
                connection = connection or Bounded.open(database_url, BRIEF, _OPTION)
                asked = time.monotonic()
                if tasks.beat(connection, task_id, self.owner, parsing=self._parsing_since is not None):
                    self._renewed = asked
                else:
                    self._lost.set()
            except psycopg.Error as error:
                log.warning("lease not renewed", task_id=str(task_id), error=str(error))
                connection = None
        if connection is not None:
            connection.close()

    def _end_endless_parsing(self) -> None:
        since = self._parsing_since
        if since is None:
            return
        worked, passed = time.process_time() - self._worked_before, time.monotonic() - since
        if worked > self._allowed or passed > self._longest:
            log.error("a file takes too long; its process ends", processor_seconds=worked, seconds=passed)
            os.kill(os.getpid(), signal.SIGKILL)

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
        thread.join(_LAST)
