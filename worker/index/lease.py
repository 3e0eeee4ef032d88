"""A worker's time-limited claim. A thread renews it on its own connection while the work continues."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
import structlog
from psycopg import Connection

from schemas.errors import LeaseLost
from worker.state.address import Address
from worker.state.connections import BRIEF, BoundedConnection
from worker.state.index import tasks

#: Seconds between renewals. A worker notices a cancellation within 2 s, however busy Postgres is.
RENEW_SECONDS = tasks.LEASE.total_seconds() / 8
#: Multiple of a file's allowed processor time after which its process is killed, in code that no signal interrupts.
KILL_FACTOR = 2.0
#: Wall-clock limit as a multiple of that time, because the machine may be busy with other work.
_WALL_CLOCK_FACTOR = 10

#: Seconds that the work waits for its last renewal; a thread without an answer from Postgres ends by itself.
_JOIN_SECONDS = 5.0

log = structlog.get_logger()


L = TypeVar("L", bound="Lease")


class Lease:
    """A worker's claim: its owner id, whether it still holds, and the parsing that it covers."""

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
        """Raise `LeaseLost` once the task's writes are unwanted or the lease was not renewed in time.

        The clock keeps running while a process is stopped, so a process that resumes late sees that its lease expired.
        """
        if self._lost.is_set() or self._expired():
            raise LeaseLost("the task was cancelled, deleted or taken over")

    def _expired(self) -> bool:
        return time.monotonic() - self._renewed > tasks.LEASE.total_seconds()

    def note_parsing(self, seconds: float, longest: float | None = None) -> None:
        """Note that parsing of a file begins. If the process now dies or exceeds its time, that file is to blame.

        `seconds` is the processor time allowed. `longest` is the wall-clock time allowed in seconds, for work that
        something else limits.
        """
        self._worked_before = time.process_time()
        self._allowed = KILL_FACTOR * seconds
        self._longest = max(self._allowed * _WALL_CLOCK_FACTOR, longest or 0.0)
        self._parsing_since = time.monotonic()

    def note_parsed(self) -> None:
        """Note that parsing has ended."""
        self._parsing_since = None

    def keep(self, database: Address, task_id: UUID) -> None:
        """Renew until `end`. Runs in a thread, because the work may be busy for longer than a lease lasts."""
        connection: BoundedConnection | None = None
        while not self._done.wait(RENEW_SECONDS):
            self._end_endless_parsing()
            if self._expired():
                # other workers may hold the files now, even if the task is still wanted, so renewing is useless
                continue
            try:
                connection = connection or BoundedConnection.open(database, BRIEF)
                sent_at = time.monotonic()
                if self.beat(connection, task_id):
                    self._renewed = sent_at
                else:
                    self._lost.set()
            except psycopg.Error as error:
                log.warning("lease not renewed", task_id=str(task_id), error=str(error))
                connection = None
        if connection is not None:
            connection.close()

    def beat(self, connection: Connection[Any], task_id: UUID) -> bool:
        """Renew the lease and the claims that it holds. Returns False once the task's writes are unwanted."""
        return tasks.beat(connection, task_id, self.owner, parsing=self._parsing_since is not None)

    def _end_endless_parsing(self) -> None:
        since = self._parsing_since
        if since is None:
            return
        processor_seconds, seconds = time.process_time() - self._worked_before, time.monotonic() - since
        if processor_seconds > self._allowed or seconds > self._longest:
            log.error("a file takes too long; ending its process", processor_seconds=processor_seconds, seconds=seconds)
            os.kill(os.getpid(), signal.SIGKILL)

    def end(self) -> None:
        """Stop renewing."""
        self._done.set()


@contextmanager
def open_lease(database: Address, task_id: UUID) -> Iterator[Lease]:
    """Open a lease that is renewed until the block ends."""
    with keep_renewed(Lease(), database, task_id) as lease:
        yield lease


@contextmanager
def keep_renewed(lease: L, database: Address, task_id: UUID) -> Iterator[L]:
    """Renew a lease until the block ends."""
    thread = threading.Thread(target=lease.keep, args=(database, task_id), name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.end()
        thread.join(_JOIN_SECONDS)
