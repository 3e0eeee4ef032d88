"""Watches the folders of tools that ask for it. It notes changes; the sweep starts the runs.

It is a program of its own, and one process at a time runs it in the whole installation. A Celery process would be
occupied forever, and a thread in a worker's main process would be forked with everything it holds. Changes while
nothing watches are not lost: a process that starts to watch a folder has it listed once.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from uuid import UUID

import psycopg
import structlog
from psycopg import Connection
from psycopg.rows import TupleRow
from watchfiles import Change
from watchfiles import watch as changes_in

from schemas.errors import SourceError, SourceUnavailable
from worker.ignore import IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail, rules_of
from worker.machine.paths import real_path
from worker.resources import Resources
from worker.state.index import changes
from worker.state.index.changes import Watched
from worker.state.postgres import exclusive_connection

#: Name of the lock that only one process in the installation holds at a time.
WATCH = "watch"
#: Seconds between checks of which folders to watch, and of folders that do not report changes themselves.
CHECK_SECONDS = 1.0
#: Seconds without a heartbeat, which each check sends, after which a watching process loses its turn.
SILENT_SECONDS = 30
#: Seconds between checks whether it is this process's turn.
TURN_SECONDS = 2.0
#: Seconds between listings of a folder that cannot be watched, for lack of handles, say.
UNWATCHED_SECONDS = 60.0
#: Maximum share of time spent checking a tree of nodes.
NODES_SHARE = 0.05
#: Maximum share of time spent finding a folder's directories.
WALK_SHARE = 0.05
#: Number of changes at once from which the system may have dropped some.
MANY_CHANGES = 1000
#: Milliseconds for which changes of one folder are gathered.
GATHER_MS = 400
#: Milliseconds after which a folder's thread wakes up without any change.
LISTEN_MS = 500

log = structlog.get_logger()


def run(resources: Resources, stop: Event, silence: int = SILENT_SECONDS) -> None:
    """Watch, or wait for the turn to watch, until `stop` is set.

    A process that is stopped for `silence` seconds loses its turn to another, and notices when it resumes.
    """
    # it logs every single change
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    waits = False
    while not stop.is_set():
        try:
            with exclusive_connection(resources.settings.session_url, WATCH, seconds=silence) as lock:
                if lock is not None:
                    log.info("watching")
                    Watcher(resources).watch(lock, stop)
                elif not waits:
                    log.info("another process is watching; waiting")
                waits = lock is None
        except psycopg.OperationalError as error:
            log.warning("Postgres does not answer; watching resumes when it does", error=str(error))
        stop.wait(TURN_SECONDS)
    resources.pool.close()


class Watcher:
    """Everything that one process watches while its turn lasts."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._followed: dict[UUID, LocalWatch | NodesWatch] = {}

    def watch(self, lock: Connection[TupleRow], stop: Event) -> None:
        """Run until `stop` is set. Raises `OperationalError` once the lock's connection, and so the turn, is lost."""
        try:
            while not stop.is_set():
                lock.execute("SELECT 1")
                self._update_watches()
                self._note_changes()
                stop.wait(CHECK_SECONDS)
        finally:
            for followed in self._followed.values():
                followed.close()

    def _update_watches(self) -> None:
        """Start watching what is wanted now, and stop watching what is not."""
        watched = changes.watched(self._resources.pool)
        watchable = {index.id: index for index in watched if index.source.is_watchable}
        for removed in self._followed.keys() - watchable.keys():
            self._followed.pop(removed).close()
        for id_ in watchable.keys() - self._followed.keys():
            self._followed[id_] = watch_of(self._resources, watchable[id_])
            log.info("watching a folder", index_id=str(id_), kind=watchable[id_].source.kind)

    def _note_changes(self) -> None:
        changed = {id_: quiet for id_, followed in self._followed.items() if (quiet := followed.look()) is not None}
        for quiet in {*changed.values()}:
            changes.changed(self._resources.pool, [id_ for id_ in changed if changed[id_] == quiet], quiet=quiet)


def watch_of(resources: Resources, index: Watched) -> LocalWatch | NodesWatch:
    """Start to watch an index's folder in the way that its source allows."""
    directory = index.source.directory
    return NodesWatch(resources, index) if directory is None else LocalWatch(resources, index, directory)


class NodesWatch:
    """A part of the content tree; one query tells whether its rows changed, whichever process wrote them."""

    def __init__(self, resources: Resources, index: Watched) -> None:
        self._resources, self._index = resources, index
        self._due = 0.0

    def look(self) -> None:
        """Check, and note a change at once."""
        began = time.monotonic()
        if began >= self._due:
            changes.look_at_nodes(self._resources.pool, self._index.id)
            self._due = time.monotonic() + (time.monotonic() - began) / NODES_SHARE

    def close(self) -> None:
        """Do nothing; no handle is held."""


class LocalWatch:
    """A directory, which may vanish and return."""

    def __init__(self, resources: Resources, index: Watched, directory: str) -> None:
        self._resources, self._project_id = resources, index.project_id
        self._source, self._directory = index.source, directory
        self._rules = rules_of(index.settings)
        self._folder: Folder | None = None
        self._was_ready = self._is_missing = self._renewed = False
        self._due = self._fresh_until = 0.0

    def look(self) -> timedelta | None:
        """Return the quiet period to wait for if something changed since the last call, otherwise None."""
        try:
            place = self._place()
        except SourceUnavailable:
            # neither here nor gone: the next check may tell
            return None
        if place is None:
            was_missing, self._is_missing = self._is_missing, True
            self.close()
            # the task that is started reports that the folder is gone
            return None if was_missing else timedelta(0)
        self._is_missing = False
        if self._folder is not None and self._folder.place != place:
            self.close()
        if self._folder is None:
            if time.monotonic() >= self._due:
                self._folder = Folder(place, self._rules, real_path(self._resources.home))
            return None
        return self._hear(self._folder)

    def close(self) -> None:
        """Stop watching."""
        if self._folder is not None:
            self._folder.close()
        self._folder, self._was_ready, self._renewed, self._due = None, False, False, 0.0

    def _hear(self, folder: Folder) -> timedelta | None:
        if folder.ended.is_set():
            failed, stale = folder.failed, folder.stale.is_set()
            self.close()
            self._renewed = stale and not failed
            self._due = time.monotonic() + UNWATCHED_SECONDS if failed else 0.0
            return timedelta(0) if failed else None
        if folder.ready.is_set() and not self._was_ready:
            # from here on changes are heard; earlier changes need a listing
            self._was_ready = True
            self._fresh_until = time.monotonic() + folder.took / WALK_SHARE
            return changes.QUIET if self._renewed else timedelta(0)
        if folder.stale.is_set() and time.monotonic() >= self._fresh_until:
            # the next call sees what has changed
            folder.close()
            return None
        if folder.changed.is_set():
            folder.changed.clear()
            return changes.QUIET
        return None

    def _place(self) -> Place | None:
        try:
            self._resources.source(self._project_id, self._source).check()
            path = real_path(self._directory)
            info = os.stat(path)  # noqa: PTH116 - a Path is of no use here
        except SourceUnavailable:
            raise
        except SourceError as error:
            if not self._is_missing:
                log.warning("a watched folder cannot be read", code=error.code, reason=error.message)
            return None
        except OSError:
            return None
        return Place(path, info.st_dev, info.st_ino)


@dataclass(frozen=True, slots=True)
class Place:
    """A directory, distinguished from another that takes its name."""

    path: str
    device: int
    inode: int


class Folder:
    """A directory whose changes a thread receives: all of them once `ready`, setting `changed` for each.

    Each directory that a listing enters is watched by itself. So ignored directories and links' targets take no handle,
    and an unreadable directory hides no other. `stale`: directories were added or changes may have been missed, so the
    folder must be watched again. `ended`: no more changes are received, because the directory vanished or watching
    `failed`.
    """

    def __init__(self, place: Place, rules: Rules, closed: str) -> None:
        self.place = place
        self.ready, self.changed, self.stale, self.ended = Event(), Event(), Event(), Event()
        self.failed = False
        #: Seconds of processor time to find the directories.
        self.took = 0.0
        self._closed = closed
        self._stop = Event()
        self._watched: set[str] = set()
        self._trail: Trail[str] = Trail(rules, str, self._ignore_files)
        Thread(target=self._listen, name=f"watch {place.path}", daemon=True).start()

    def close(self) -> None:
        """Stop receiving changes."""
        self._stop.set()

    def _listen(self) -> None:
        try:
            self._watched.update(self._directories())
            for batch in _changes_in(*self._watched, stop=self._stop):
                if not self.ready.is_set():
                    self._begin()
                self._hear(batch)
                self.ready.set()
                if self.ended.is_set():
                    return
        except FileNotFoundError:
            pass  # it vanished before it could be watched
        except (OSError, RuntimeError, UnicodeEncodeError) as error:
            log.warning(
                "a folder cannot be watched; it is scanned once a minute. "
                "Raise fs.inotify.max_user_watches and max_user_instances, or use `every`.",
                path=self.place.path,
                error=str(error),
            )
            self.failed = True
        except Exception:  # a bug of ours must not end this watch silently
            log.exception("watching a folder failed", path=self.place.path)
            self.failed = True
        finally:
            self.ended.set()

    def _begin(self) -> None:
        """Check that everything is watched.

        Raises `OSError` if no handles are left, which is not reported otherwise.
        """
        next(changes_in(self.place.path, watch_filter=None, recursive=False, rust_timeout=1, yield_on_timeout=True))
        began = time.thread_time()
        # a directory was created during the search
        if any(path not in self._watched for path in self._directories()):
            self.stale.set()
        self.took = time.thread_time() - began

    def _directories(self) -> Iterator[str]:
        """Yield the folder itself and the directories in it that a listing enters."""
        self._trail.forget()
        yield self.place.path
        stack: list[tuple[str, ...]] = [()]
        while stack and not self._stop.is_set():
            way = stack.pop()
            path = "/".join((self.place.path.rstrip("/"), *way)) or "/"
            if self._is_pruned(path, way) or (names := _directories_in(path)) is None:
                continue
            stack.extend((*way, name) for name in names)
            if way:
                path.encode()  # a name that is not UTF-8 can be listed, but not watched
                yield path

    def _is_pruned(self, path: str, way: tuple[str, ...]) -> bool:
        return path == self._closed or self._trail.pruned(way) is not None

    def _hear(self, batch: Iterable[tuple[Change, str]]) -> None:
        changes = sorted(batch, key=lambda change: change[1])
        if (Change.deleted, self.place.path) in changes:
            self.ended.set()
        if len(changes) >= MANY_CHANGES:
            self.stale.set()
            self.changed.set()
            return
        self._trail.forget()
        came = {path for change, path in changes if change is Change.added}
        if any(self._concerns(path, came=path in came) for _, path in changes):
            self.changed.set()
        if any(self._adds_directories(path, came=path in came) for _, path in changes):
            self.stale.set()

    def _concerns(self, path: str, *, came: bool) -> bool:
        """Whether a listing could see the change of something that was just added (`came`) or was there before."""
        *folders, name = path.removeprefix(self.place.path).strip("/").split("/")
        if self._trail.pruned(tuple(folders)):
            return False
        is_file = self._trail.ignored(name) is None
        mode = _mode(path)
        if not mode:
            # it is gone: a directory that was moved away took along files for which no event arrives
            return is_file or (not came and bool(name) and self._trail.pruned((*folders, name)) is None)
        return not self._is_pruned(path, (*folders, name)) if name and stat.S_ISDIR(mode) else is_file

    def _adds_directories(self, path: str, *, came: bool) -> bool:
        """Whether there may be a directory that is not watched, or one with changed ignore rules."""
        *folders, name = path.removeprefix(self.place.path).strip("/").split("/")
        if name in IGNORE_FILES:
            return True
        if not (name and stat.S_ISDIR(_mode(path)) and (came or path not in self._watched)):
            return False
        return not self._trail.pruned(tuple(folders)) and not self._is_pruned(path, (*folders, name))

    def _ignore_files(self, way: tuple[str, ...]) -> Iterable[IgnoreFile]:
        for name in IGNORE_FILES:
            data = _regular(Path(self.place.path, *way, name))
            if data is not None:
                # the listing reports files that cannot be obeyed
                yield name, data


def _changes_in(*paths: str, stop: Event) -> Iterator[set[tuple[Change, str]]]:
    """Yield batches of changes in directories, empty after a while without any. Unreadable directories are skipped."""
    return changes_in(
        *paths,
        watch_filter=None,
        recursive=False,
        debounce=GATHER_MS,
        rust_timeout=LISTEN_MS,
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=True,
    )


def _directories_in(path: str) -> list[str] | None:
    """Return the names of a directory's subdirectories; None if it cannot be listed, because it is closed or gone."""
    try:
        with os.scandir(path) as items:
            return [item.name for item in items if item.is_dir(follow_symlinks=False)]
    except (PermissionError, FileNotFoundError, NotADirectoryError):
        return None


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _regular(path: Path) -> bytes | None:
    """Read the beginning of a regular file without waiting on pipes or following links, as the listing does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(handle, "rb") as file:  # noqa: PTH123 - a Path takes no flags
            return file.read(MAX_IGNORE_FILE + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None
