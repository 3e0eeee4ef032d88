"""Watches the folders of tools that request it, records changes, and starts the runs; the sweep starts the others.

It is a separate program, and one process at a time runs it in the whole installation. A Celery process would be
occupied forever, and a thread in a worker's main process would be forked with everything it holds. Changes while
nothing watches are not lost: a process that starts to watch a folder has it listed once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from threading import Event
from uuid import UUID

import psycopg
import structlog
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from worker.app import post_plan
from worker.resources import Resources
from worker.sources.bucket_events import EventQueue
from worker.sources.changes_seen import Followed
from worker.sources.event_batches import BucketEvents
from worker.sources.kind import WatchAccess
from worker.sources.registry import watch_source
from worker.state import schema_version
from worker.state.exclusive import exclusive_connection, keep_lock
from worker.state.index import changes
from worker.upkeep.isolation import isolate_failure

#: Name of the installation-wide lock, which one process at a time can hold.
WATCH = "watch"
#: Seconds between updates of the watched folders, and between checks of folders that do not report changes themselves.
CHECK_SECONDS = 1.0
#: Seconds without a heartbeat, which each check sends, after which a watching process loses its turn.
SILENT_SECONDS = 30
#: Seconds between checks whether it is this process's turn.
TURN_SECONDS = 2.0
#: Maximum seconds between attempts to reach Postgres while it is away; the first pause is `TURN_SECONDS`.
AWAY_SECONDS = 10.0
#: Seconds by which a run is started late, so that Postgres finds it due.
CLOCK_SECONDS = 0.005

log = structlog.get_logger()


def run(resources: Resources, stop: Event, silence: int = SILENT_SECONDS) -> None:
    """Watch, or wait for the turn to watch, until `stop` is set.

    A process that is stopped for `silence` seconds loses its turn to another, and notices when it resumes.
    """
    # it logs every single change
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    schema_version.wait(resources.settings.session_url, stop)
    waits, outage = False, PostgresOutage()
    while not stop.is_set():
        pause = TURN_SECONDS
        try:
            with exclusive_connection(resources.settings.session_url, WATCH, seconds=silence) as lock:
                if lock is not None:
                    log.info("watching")
                    Watcher(resources).watch(lock, stop, outage.end)
                else:
                    outage.end()
                    if not waits:
                        log.info("another process is watching; waiting")
                waits = lock is None
        except psycopg.OperationalError as error:
            pause = outage.note_failure(error)
        stop.wait(pause)
    resources.pool.close()


class PostgresOutage:
    """A period in which Postgres does not answer. Warns when it begins, and logs when it ends."""

    def __init__(self) -> None:
        #: The last pause between two attempts; 0 while Postgres answers.
        self._pause = 0.0

    def note_failure(self, error: psycopg.OperationalError) -> float:
        """Note a failed attempt. Returns the seconds until the next one, which double up to `AWAY_SECONDS`."""
        if self._pause:
            log.debug("Postgres still does not answer", error=str(error))
        else:
            log.warning("Postgres does not answer; watching resumes when it does", error=str(error))
        self._pause = min(2 * self._pause or TURN_SECONDS, AWAY_SECONDS)
        return self._pause

    def end(self) -> None:
        """Note that Postgres answers."""
        if self._pause:
            log.info("Postgres answers again")
        self._pause = 0.0


class Watcher:
    """The folders that one process watches during its turn."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._rest = timedelta(seconds=resources.settings.watch_rest_seconds)
        self._followed: dict[UUID, Followed] = {}
        #: Times at which the runs over changed folders are due.
        self._due: dict[UUID, float] = {}
        #: Folders whose changes could not be recorded because another session locks their indexes.
        self._unnoted: set[UUID] = set()
        self._woken = Event()
        queue_url = resources.settings.s3_events_queue_url
        self._bucket_events = BucketEvents(EventQueue(queue_url), self._woken.set) if queue_url else None

    def watch(self, lock: Connection[TupleRow], stop: Event, answered: Callable[[], None]) -> None:
        """Run until `stop` is set. `answered` is called whenever Postgres has answered, through the pool too.

        Raises `OperationalError` once the lock's connection, and so the turn, is lost.
        """
        checked = -CHECK_SECONDS
        try:
            while not stop.is_set():
                self._woken.clear()
                if time.monotonic() - checked >= CHECK_SECONDS:
                    checked = time.monotonic()
                    keep_lock(lock)
                    self._update_watches()
                    answered()
                self._note_changes()
                self._start_runs()
                self._woken.wait(max(0.0, min([checked + CHECK_SECONDS, *self._due.values()]) - time.monotonic()))
        finally:
            for followed in self._followed.values():
                followed.close()
            if self._bucket_events:
                self._bucket_events.close()

    def _update_watches(self) -> None:
        """Start watching folders that are wanted now, and stop watching the others."""
        watched = changes.list_watched(self._resources.pool)
        for removed in self._followed.keys() - {index.id for index in watched}:
            self._followed.pop(removed).close()
        for index in (index for index in watched if index.id not in self._followed):
            access = WatchAccess(self._resources.access(index.project_id), self._woken.set, self._bucket_events)
            followed = watch_source(access, index)
            if followed is not None:
                self._followed[index.id] = followed
                log.info("watching a folder", index_id=str(index.id), kind=index.source.kind)

    def _note_changes(self) -> None:
        if self._bucket_events:
            self._bucket_events.open_batch()
        for id_, followed in self._followed.items():
            noticed = followed.look()
            if noticed is not None:
                self._note(id_, noticed.seen.paths, noticed.quiet)
        for id_ in self._unnoted - self._followed.keys():
            self._unnoted.discard(id_)
        for id_ in [*self._unnoted]:
            self._unnoted.discard(id_)
            self._note(id_, None, changes.QUIET)
        if self._bucket_events:
            self._bucket_events.close_batch()

    def _note(self, id_: UUID, paths: Collection[str] | None, quiet: timedelta) -> None:
        """Record a change. If another session locks the index, the whole folder is recorded once it is free."""
        try:
            seconds = changes.note_change(self._resources.pool, id_, paths=paths, quiet=quiet, rest=self._rest)
        except LockNotAvailable as error:
            log.warning("a lock delays the run over a folder that changed", index_id=str(id_), error=str(error))
            self._unnoted.add(id_)
        else:
            if seconds is not None:
                self._due[id_] = time.monotonic() + seconds + CLOCK_SECONDS

    def _start_runs(self) -> None:
        """Start the runs that are due, without waiting for the next sweep."""
        for id_ in [id_ for id_, due in self._due.items() if due <= time.monotonic()]:
            del self._due[id_]
            with isolate_failure("a run could not be started yet", index_id=str(id_)):
                started = changes.start(self._resources.pool, id_, self._rest)
                if started is not None:
                    # in the background: a broker that is down must not delay the watch
                    post_plan(started.task_id, started.tool_id)
