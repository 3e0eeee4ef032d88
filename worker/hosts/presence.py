"""Registers a process's heartbeat every 20 s, with its clock's difference from Postgres' and its reachable services."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from threading import Event, Thread
from uuid import uuid4

import psycopg
import structlog
from psycopg import Connection
from psycopg.rows import TupleRow

from schemas.errors import SchemaBehind
from worker.hosts.compared_settings import registration
from worker.machine.host import this_host
from worker.settings import Settings
from worker.state import hosts
from worker.state.connections import BRIEF, BoundedConnection
from worker.state.hosts import ClockOffset, Registration, Role
from worker.state.pool import Pool, autocommit

#: Seconds between two heartbeats, so that two may fail before the process counts as gone.
NOTE_SECONDS = 20.0
#: Seconds between two checks of services, which cost a request each.
REACH_SECONDS = 60.0
#: Seconds by which a clock may differ from Postgres'.
MAX_CLOCK_SECONDS = 2.0

log = structlog.get_logger()

#: Opens or lends a connection in autocommit.
Connect = Callable[[], AbstractContextManager[Connection[TupleRow]]]
#: Checks the services of a process, if there are any.
Reach = Callable[[], Mapping[str, str | None]]


class Presence:
    """This process in the registry of hosts, from its start to its end."""

    def __init__(self, settings: Settings, role: Role, *, node: str = "", queues: Sequence[str] = ()) -> None:
        self.id = uuid4()
        self._settings, self._role, self._queues = settings, role, queues
        self._node = node or f"{role}@{this_host()}"
        self._registration: Registration | None = None
        self._reached: Mapping[str, str | None] = {}
        self._is_clock_wrong = self._is_away = False

    def note(self, connect: Connect | None = None) -> None:
        """Register a heartbeat, over a new connection if none is given. An outage only logs a line."""
        try:
            with (connect or self._open)() as connection:
                self._note(connection)
        except (psycopg.Error, SchemaBehind) as error:
            if not self._is_away:
                log.warning("this process is not noted in the registry of hosts", error=str(error))
            self._is_away = True
        else:
            self._is_away = False

    def lacks(self, names: Sequence[str]) -> bool:
        """Return whether one of these settings may not be set here."""
        known = self._registration
        return known is None or any(known.settings.get(name) is None for name in names)

    def keep(self, pool: Pool, stop: Event | None = None, *, reach: Reach | None = None) -> None:
        """Register heartbeats in the background until `stop` is set. `reach` checks services now and then.

        Opening a connection for each heartbeat would take more than all other work of an idle process.
        """
        stop = stop or Event()
        connect = partial(autocommit, pool)
        Thread(target=self._keep_noting, args=(connect, stop), name="presence", daemon=True).start()
        if reach is not None:
            Thread(target=self._keep_reaching, args=(connect, stop, reach), name="reach", daemon=True).start()

    def end(self) -> None:
        """Record that this process has ended, so that comparisons leave it out."""
        with suppress(psycopg.Error), self._open() as connection:
            hosts.end(connection, self.id)

    def _open(self) -> BoundedConnection:
        return BoundedConnection.open(self._settings.database, BRIEF)

    def _keep_noting(self, connect: Connect, stop: Event) -> None:
        while True:
            self.note(connect)
            if stop.wait(NOTE_SECONDS):
                return

    def _keep_reaching(self, connect: Connect, stop: Event, reach: Reach) -> None:
        while True:
            before, self._reached = self._reached, reach()
            if self._reached != before:
                self.note(connect)
            if stop.wait(REACH_SECONDS):
                return

    def _note(self, connection: Connection[TupleRow]) -> None:
        if self._registration is None:
            self._registration = registration(
                self._settings,
                hosts.salt(connection),
                id_=self.id,
                role=self._role,
                node=self._node,
                queues=self._queues,
            )
        clock = clock_offset(partial(hosts.server_clock, connection))
        self._tell_clock(clock)
        hosts.note(connection, self._registration, clock, self._reached)

    def _tell_clock(self, clock: ClockOffset) -> None:
        """Log once when the clock is wrong, and once when it is right again."""
        was_wrong, self._is_clock_wrong = self._is_clock_wrong, is_wrong(clock)
        if self._is_clock_wrong and not was_wrong:
            log.warning("the clock of this machine differs from Postgres'; synchronise it", seconds=clock.seconds)
        elif was_wrong and not self._is_clock_wrong:
            log.info("the clock of this machine agrees with Postgres' again")


def clock_offset(
    ask: Callable[[], float],
    wall: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
) -> ClockOffset:
    """Return how far this machine's clock is ahead of the time from `ask`, at the middle of the round trip."""
    began, started = wall(), steady()
    theirs = ask()
    half = (steady() - started) / 2
    return ClockOffset(round(began + half - theirs, 3), round(half, 3))


def is_wrong(clock: ClockOffset) -> bool:
    """Return whether a clock certainly differs by more than it may."""
    return abs(clock.seconds) - clock.doubt > MAX_CLOCK_SECONDS
