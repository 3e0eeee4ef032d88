"""Watches the folders of tools that ask for it, notes what changed, and starts the runs; the sweep starts the rest.

It is a program of its own, and one process at a time runs it in the whole installation. A Celery process would be
occupied forever, and a thread in a worker's main process would be forked with everything it holds. Changes while
nothing watches are not lost: a process that starts to watch a folder has it listed once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from uuid import UUID

import psycopg
import structlog
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from schemas.content.source import AnySource, S3Source
from schemas.errors import SourceError, SourceUnavailable
from worker.app import post_plan
from worker.ignore import rules_of
from worker.resources import Resources
from worker.sources.bucket_events import EventQueue
from worker.sources.local import LocalFolder, OpenedPlace
from worker.state.exclusive import exclusive_connection, keep_lock
from worker.state.index import changes
from worker.state.index.changes import WatchedIndex
from worker.upkeep.isolation import failing_alone
from worker.upkeep.watched_buckets import BucketEvents
from worker.upkeep.watched_folder import ANYTHING, NOTHING, SeenChanges, WatchedFolder

#: Name of the lock that only one process in the installation holds at a time.
WATCH = "watch"
#: Seconds between checks of which folders to watch, and of folders that do not report changes themselves.
CHECK_SECONDS = 1.0
#: Seconds without a heartbeat, which each check sends, after which a watching process loses its turn.
SILENT_SECONDS = 30
#: Seconds between checks whether it is this process's turn.
TURN_SECONDS = 2.0
#: Maximum seconds between attempts to reach Postgres while it is away; the first pause is `TURN_SECONDS`.
AWAY_SECONDS = 10.0
#: Seconds between listings of a folder that cannot be watched, such as for lack of handles.
UNWATCHED_SECONDS = 60.0
#: Maximum share of time spent checking a tree of nodes.
NODES_SHARE = 0.05
#: Maximum share of time spent finding a folder's directories.
WALK_SHARE = 0.05
#: Seconds by which a run is started late, so that Postgres finds it due.
CLOCK_SECONDS = 0.005
#: Seconds after which a folder is listed as a whole: a change by mmap or through another hard link is not told.
EVERYTHING_SECONDS = 3600.0
#: The same for a bucket: its queue keeps events, and its listing takes longer.
EVERYTHING_IN_BUCKET_SECONDS = 86_400.0

log = structlog.get_logger()


def run(resources: Resources, stop: Event, silence: int = SILENT_SECONDS) -> None:
    """Watch, or wait for the turn to watch, until `stop` is set.

    A process that is stopped for `silence` seconds loses its turn to another, and notices when it resumes.
    """
    # it logs every single change
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
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
    """The time for which Postgres does not answer. Warns when it begins, and says when it is over."""

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


@dataclass(frozen=True, slots=True)
class NoticedChanges:
    """What changed in a folder, and the quiet period to wait for."""

    seen: SeenChanges
    quiet: timedelta


class Watcher:
    """Everything that one process watches while its turn lasts."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._rest = timedelta(seconds=resources.settings.watch_rest_seconds)
        self._followed: dict[UUID, Followed] = {}
        #: When the runs over changed folders are due.
        self._due: dict[UUID, float] = {}
        #: Folders whose changes could not be noted because another session locks their indexes.
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
        """Start watching what is wanted now, and stop watching what is not."""
        watched = changes.watched(self._resources.pool)
        watchable = {index.id: index for index in watched if self._can_watch(index.source)}
        for removed in self._followed.keys() - watchable.keys():
            self._followed.pop(removed).close()
        for id_ in watchable.keys() - self._followed.keys():
            self._followed[id_] = self._watch_of(watchable[id_])
            log.info("watching a folder", index_id=str(id_), kind=watchable[id_].source.kind)

    def _can_watch(self, source: AnySource) -> bool:
        return source.is_watchable and (self._bucket_events is not None or not source.needs_event_queue)

    def _watch_of(self, index: WatchedIndex) -> Followed:
        """Start to watch an index's folder in the way that its source allows."""
        if isinstance(index.source, S3Source) and self._bucket_events:
            return BucketWatch(self._bucket_events, index.source)
        directory = index.source.directory
        if directory is None:
            return NodesWatch(self._resources, index)
        return LocalWatch(self._resources, index, directory, self._woken.set)

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
        """Note a change. If another session locks the index, the whole folder is noted once it is free."""
        try:
            seconds = changes.changed(self._resources.pool, id_, paths=paths, quiet=quiet, rest=self._rest)
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
            with failing_alone("a run could not be started yet", index_id=str(id_)):
                started = changes.start(self._resources.pool, id_, self._rest)
                if started is not None:
                    # in the background: a broker that is down must not delay the watch
                    post_plan(started.task_id, started.tool_id)


class BucketWatch:
    """A prefix of a bucket. The queue keeps what happens while nothing watches."""

    def __init__(self, events: BucketEvents, source: S3Source) -> None:
        self._events, self._source = events, source
        self._listed: float | None = None
        events.start()

    def look(self) -> NoticedChanges | None:
        """Return what the open batch of events says; everything at first, as the queue may be new, and now and then."""
        seen, now = self._events.seen(self._source), time.monotonic()
        if self._listed is None or (seen and now - self._listed >= EVERYTHING_IN_BUCKET_SECONDS):
            self._listed = now
            return NoticedChanges(ANYTHING, timedelta(0))
        return NoticedChanges(seen, changes.QUIET_OF_PATHS) if seen else None

    def close(self) -> None:
        """Do nothing; all buckets share the queue."""


class NodesWatch:
    """A part of the content tree; one query tells whether its rows changed, whichever process wrote them."""

    def __init__(self, resources: Resources, index: WatchedIndex) -> None:
        self._resources, self._index = resources, index
        self._due = 0.0

    def look(self) -> None:
        """Check, and note a change at once."""
        began = time.monotonic()
        if began >= self._due:
            changes.look_at_nodes(self._resources.pool, self._index.id)
            ended = time.monotonic()
            self._due = max(began + CHECK_SECONDS, ended + (ended - began) / NODES_SHARE)

    def close(self) -> None:
        """Do nothing; no handle is held."""


class LocalWatch:
    """A directory, which may vanish and return."""

    def __init__(self, resources: Resources, index: WatchedIndex, directory: str, wake: Callable[[], None]) -> None:
        self._resources, self._project_id = resources, index.project_id
        self._source, self._directory = index.source, directory
        self._rules, self._wake = rules_of(index.settings), wake
        #: What is heard, and what hears the same with more directories, as soon as it is ready.
        self._folder: WatchedFolder | None = None
        self._next: WatchedFolder | None = None
        self._was_ready = self._is_missing = False
        self._due = self._fresh_until = self._listed = 0.0

    def look(self) -> NoticedChanges | None:
        """Return what changed since the last call, if anything."""
        try:
            place = self._place()
        except SourceUnavailable:
            # neither here nor gone: the next check may tell
            return None
        if place is None:
            was_missing, self._is_missing = self._is_missing, True
            self.close()
            # the task that is started reports that the folder is gone
            return None if was_missing else self._everything(timedelta(0))
        self._is_missing = False
        if self._folder is not None and self._folder.place != place:
            self.close()
        if self._folder is None:
            if time.monotonic() >= self._due:
                self._folder = self._new_folder(place)
            return None
        return self._hear(self._folder)

    def close(self) -> None:
        """Stop watching."""
        for folder in (self._folder, self._next):
            if folder is not None:
                folder.close()
        self._folder, self._next, self._was_ready, self._due = None, None, False, 0.0

    def _new_folder(self, place: OpenedPlace) -> WatchedFolder:
        return WatchedFolder(place, self._rules, self._resources.home, self._wake)

    def _hear(self, folder: WatchedFolder) -> NoticedChanges | None:
        if folder.ended.is_set() or (self._next is not None and self._next.ended.is_set()):
            failed = folder.failed or (self._next is not None and self._next.failed)
            self.close()
            self._due = time.monotonic() + UNWATCHED_SECONDS if failed else 0.0
            return self._everything(timedelta(0)) if failed else None
        if not folder.ready.is_set():
            return None
        if not self._was_ready:
            # from here on changes are heard; earlier changes need a listing
            self._was_ready = True
            self._fresh_until = time.monotonic() + folder.took / WALK_SHARE
            return self._everything(timedelta(0))
        unheard = self._renew(folder)
        seen = folder.take() | unheard
        if time.monotonic() - self._listed >= EVERYTHING_SECONDS:
            seen = ANYTHING
        if seen.paths is None:
            return self._everything(changes.QUIET)
        return NoticedChanges(seen, changes.QUIET_OF_PATHS) if seen else None

    def _everything(self, quiet: timedelta) -> NoticedChanges:
        self._listed = time.monotonic()
        return NoticedChanges(ANYTHING, quiet)

    def _renew(self, folder: WatchedFolder) -> SeenChanges:
        """Watch a stale folder again, while the old watch goes on. Returns what neither of them heard."""
        if self._next is not None and self._next.ready.is_set():
            folder.close()
            self._folder, self._next = self._next, None
            self._fresh_until = time.monotonic() + self._folder.took / WALK_SHARE
            return folder.unheard | self._folder.take()
        if self._next is None and folder.stale.is_set() and time.monotonic() >= self._fresh_until:
            self._next = self._new_folder(folder.place)
        return NOTHING

    def _place(self) -> OpenedPlace | None:
        try:
            source = self._resources.source(self._project_id, self._source)
            source.check()
            return source.place() if isinstance(source, LocalFolder) else None
        except SourceUnavailable:
            raise
        except SourceError as error:
            if not self._is_missing:
                log.warning("a watched folder cannot be read", code=error.code, reason=error.message)
            return None


#: Watches one index's folder.
Followed = LocalWatch | NodesWatch | BucketWatch
