"""Notices changes in a directory, whether or not it can be watched at the moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import structlog

from schemas.errors import SourceError, SourceUnavailable
from worker.ignore import Rules
from worker.sources.changes_seen import ANYTHING, NOTHING, NoticedChanges, SeenChanges
from worker.sources.local import LocalFolder, OpenedPlace
from worker.sources.watching.directory import WatchedFolder
from worker.state.index import changes

#: Seconds between listings of a folder that cannot be watched, such as for lack of handles.
UNWATCHED_SECONDS = 60.0
#: Maximum share of time spent finding a folder's directories.
WALK_SHARE = 0.05
#: Seconds after which a whole folder is listed: changes by mmap or through another hard link cause no event.
EVERYTHING_SECONDS = 3600.0

log = structlog.get_logger()


class LocalWatch:
    """A directory, which may vanish and return."""

    def __init__(
        self, open_folder: Callable[[], LocalFolder], rules: Rules, home: Path, wake: Callable[[], None]
    ) -> None:
        self._open_folder = open_folder
        self._rules, self._home, self._wake = rules, home, wake
        #: The current watch, and its replacement with more directories, which takes over when it is ready.
        self._folder: WatchedFolder | None = None
        self._next: WatchedFolder | None = None
        self._was_ready = self._is_missing = False
        self._due = self._fresh_until = self._listed = 0.0

    def look(self) -> NoticedChanges | None:
        """Return the changes since the last call, if any."""
        try:
            place = self._place()
        except SourceUnavailable:
            # neither present nor gone: the next check may find out
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
        return WatchedFolder(place, self._rules, self._home, self._wake)

    def _hear(self, folder: WatchedFolder) -> NoticedChanges | None:
        if folder.ended.is_set() or (self._next is not None and self._next.ended.is_set()):
            failed = folder.failed or (self._next is not None and self._next.failed)
            self.close()
            self._due = time.monotonic() + UNWATCHED_SECONDS if failed else 0.0
            return self._everything(timedelta(0)) if failed else None
        if not folder.ready.is_set():
            return None
        if not self._was_ready:
            # changes are heard from here on; earlier changes need a listing
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
        """Watch a stale folder again, while the old watch continues. Returns the changes that neither watch heard."""
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
            folder = self._open_folder()
            folder.check()
            return folder.place()
        except SourceUnavailable:
            raise
        except SourceError as error:
            if not self._is_missing:
                log.warning("a watched folder cannot be read", code=error.code, reason=error.message)
            return None
