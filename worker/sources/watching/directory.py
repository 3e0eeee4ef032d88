"""A directory whose changes are received from the system."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

import structlog
from watchfiles import Change
from watchfiles import watch as changes_in

from worker.ignore import IGNORE_FILES, MAX_IGNORE_FILE, Above, IgnoreFile, Rules, Trail
from worker.machine.handles import closing, identity, identity_of, open_beneath, open_real, path_of_handle
from worker.sources.changes_seen import ANYTHING, MANY_CHANGES, NOTHING, SeenChanges
from worker.sources.local import OpenedPlace
from worker.sources.local_directories import OpenDirectories, closed_directories
from worker.sources.local_git import GIT, git_patterns, kind_of

#: Milliseconds for which changes of one folder are collected, while more arrive.
GATHER_MS = 400
#: Milliseconds after which a folder's thread wakes up without any change.
LISTEN_MS = 500
#: Errors of a directory that is closed, gone, or a link by now.
_NOT_ENTERED = {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP}

log = structlog.get_logger()


class WatchedFolder:
    """A directory whose changes a thread receives: all changes once `ready`. `wake` is called for each.

    Each directory that a listing enters has its own watch. So ignored directories and links' targets take no handle,
    and an unreadable directory hides no other. Files are opened without following links. `stale`: directories were
    added or changes may have been missed, so the folder must be watched again and its `unheard` changes listed.
    `ended`: no more changes are received, because the directory vanished or watching `failed`.
    """

    def __init__(self, place: OpenedPlace, rules: Rules, home: Path | None, wake: Callable[[], None]) -> None:
        self.place = place
        self.ready, self.stale, self.ended = Event(), Event(), Event()
        self.failed = False
        self.unheard = NOTHING
        #: Seconds of processor time to find the directories.
        self.took = 0.0
        self._seen = NOTHING
        self._lock = Lock()
        self._wake = wake
        self._closed = closed_directories(home)
        self._opened = OpenDirectories(self._folder, self._closed)
        self._stop = Event()
        self._watched: set[str] = set()
        self._trail: Trail[str] = Trail(rules, str, self._ignore_files, above=self._above, kind=self._kind)
        Thread(target=self._listen, name=f"watch {place.real_path}", daemon=True).start()

    def close(self) -> None:
        """Stop receiving changes."""
        self._stop.set()

    def take(self) -> SeenChanges:
        """Return the changes since the last call."""
        with self._lock:
            seen, self._seen = self._seen, NOTHING
        return seen

    def _note(self, seen: SeenChanges) -> None:
        with self._lock:
            self._seen |= seen

    def _listen(self) -> None:
        try:
            self._watched.update(self._directories())
            with self._folder() as handle:
                base = path_of_handle(handle)
                batches = _changes_in(self.place.real_path, base, *self._watched, stop=self._stop)
                batch = next(batches, None)
                self._begin(base)
            self.ready.set()
            self._wake()
            while batch is not None and not self.ended.is_set():
                if batch:
                    self._hear(batch)
                    self._wake()
                batch = None if self.ended.is_set() else next(batches, None)
        except FileNotFoundError:
            pass  # it vanished before it could be watched
        except UnicodeEncodeError as error:
            log.warning(
                "a folder cannot be watched, because the name of a directory in it is not UTF-8; it is scanned once a "
                "minute. Rename or exclude the directory.",
                path=_printable(self.place.real_path),
                directory=_printable(error.object),
            )
            self.failed = True
        except (OSError, RuntimeError) as error:
            log.warning(
                "a folder cannot be watched; it is scanned once a minute. "
                "Raise fs.inotify.max_user_watches and max_user_instances, or use `every`.",
                path=self.place.real_path,
                error=str(error),
            )
            self.failed = True
        except Exception:  # a bug of ours must not end this watch silently
            log.exception("watching a folder failed", path=self.place.real_path)
            self.failed = True
        finally:
            self.ended.set()
            self._wake()

    @contextmanager
    def _folder(self) -> Iterator[int]:
        """Open the folder itself. Raises `FileNotFoundError` also if something else has taken its path."""
        try:
            folder = open_real(os.fsencode(self.place.real_path))
        except OSError as error:
            if error.errno in _NOT_ENTERED:
                raise FileNotFoundError(self.place.real_path) from error
            raise
        with closing(folder) as handle:
            if identity(handle) != self.place.identity:
                raise FileNotFoundError(self.place.real_path)
            yield handle

    def _begin(self, base: str) -> None:
        """Check that everything is watched.

        Raises `OSError` if no handles are left, which is reported in no other way.
        """
        next(changes_in(base, watch_filter=None, recursive=False, rust_timeout=1, yield_on_timeout=True))
        began = time.thread_time()
        # directories that were created during the search
        self._renew({path for path in self._directories() if path not in self._watched})
        self.took = time.thread_time() - began

    def _directories(self) -> Iterator[str]:
        """Yield the folder itself and the directories in it that a listing enters."""
        self._trail.forget()
        yield self.place.real_path
        stack: list[tuple[str, ...]] = [()]
        with self._opened.closing():
            while stack and not self._stop.is_set():
                way = stack.pop()
                if self._trail.pruned(way) or (names := self._directories_in(way)) is None:
                    continue
                stack.extend((*way, name) for name in names)
                if way:
                    path = "/".join((self.place.real_path.rstrip("/"), *way))
                    path.encode()  # a name that is not UTF-8 can be listed, but not watched
                    yield path

    def _directories_in(self, way: tuple[str, ...]) -> list[str] | None:
        """Return the names of a directory's subdirectories; None if it cannot be entered, or is gone."""
        try:
            with os.scandir(self._handle(way)) as items:
                return [item.name for item in items if item.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno in _NOT_ENTERED:
                return None
            raise

    def _handle(self, way: tuple[str, ...]) -> int:
        return self._opened.handle(tuple(map(os.fsencode, way)))

    def _renew(self, added: Collection[str]) -> None:
        if added:
            self.unheard |= SeenChanges(frozenset(map(self._relative, added)))
            self.stale.set()

    def _relative(self, path: str) -> str:
        return path.removeprefix(self.place.real_path).strip("/")

    def _hear(self, batch: Iterable[tuple[Change, str]]) -> None:
        changes = sorted(batch, key=lambda change: change[1])
        if (Change.deleted, self.place.real_path) in changes:
            self.ended.set()
        if len(changes) >= MANY_CHANGES:
            self.unheard = ANYTHING
            self._note(ANYTHING)
            self.stale.set()
            return
        self._trail.forget()
        with self._opened.closing():
            self._hear_each(changes)

    def _hear_each(self, changes: Sequence[tuple[Change, str]]) -> None:
        came = {path for change, path in changes if change is Change.added}
        paths = {path for _, path in changes}
        seen = frozenset(self._relative(path) for path in paths if self._concerns(path, came=path in came))
        if any(map(self._changes_rules, paths)):
            # other directories may be watched under the new rules
            self.unheard, seen_paths = ANYTHING, None
            self.stale.set()
        else:
            # the folder itself has no name in it
            seen_paths = None if "" in seen else seen
        self._renew({path for path in paths if self._adds_directories(path, came=path in came)})
        self._note(SeenChanges(seen_paths))

    def _changes_rules(self, path: str) -> bool:
        """Return whether other directories may be entered: an ignore file or a repository's `.git` file changed."""
        name = path.rpartition("/")[2]
        if name != GIT:
            return name in IGNORE_FILES
        info = self._info(path)
        return info is None or not stat.S_ISDIR(info.st_mode)

    def _concerns(self, path: str, *, came: bool) -> bool:
        """Return whether a listing could see the change of an entry that was just added (`came`) or existed before."""
        *folders, name = self._relative(path).split("/")
        if self._trail.pruned(tuple(folders)):
            return False
        is_file = self._trail.ignored(name) is None
        info = self._info(path)
        if info is None:
            # it is gone: a directory that was moved away took along files without events of their own
            return is_file or (not came and bool(name) and self._trail.pruned((*folders, name)) is None)
        return self._is_entered(info, (*folders, name)) if name and stat.S_ISDIR(info.st_mode) else is_file

    def _adds_directories(self, path: str, *, came: bool) -> bool:
        """Return whether there may be a directory that is not watched."""
        *folders, name = self._relative(path).split("/")
        info = self._info(path)
        if not (name and info and stat.S_ISDIR(info.st_mode) and (came or path not in self._watched)):
            return False
        return not self._trail.pruned(tuple(folders)) and self._is_entered(info, (*folders, name))

    def _is_entered(self, info: os.stat_result, way: tuple[str, ...]) -> bool:
        return identity_of(info) not in self._closed and self._trail.pruned(way) is None

    def _info(self, path: str) -> os.stat_result | None:
        try:
            return self._opened.info(os.fsencode(self._relative(path)))
        except OSError:
            return None

    def _above(self) -> Above:
        return self.place.git.above(self._root)

    def _kind(self, way: tuple[str, ...]) -> str | None:
        with suppress(OSError):
            return kind_of(self._opened, self._root, tuple(map(os.fsencode, way)))
        return None

    @property
    def _root(self) -> bytes:
        return os.fsencode(self.place.real_path).rstrip(b"/")

    def _ignore_files(self, way: tuple[str, ...]) -> Iterable[IgnoreFile]:
        with suppress(OSError):
            yield from [*git_patterns(self._handle(way), self.place.git.user)]
        for name in IGNORE_FILES:
            with suppress(OSError):
                data = _regular(self._handle(way), name.encode())
                if data is not None:
                    # the listing reports ignore files that cannot be applied
                    yield name, data


def _changes_in(folder: str, base: str, *paths: str, stop: Event) -> Iterator[set[tuple[Change, str]]]:
    """Yield batches of changes in directories, empty after a while without any. Unreadable directories are skipped.

    All `paths` are `folder` itself or lie in it. `base` leads to the folder only until the first batch.
    """
    batches = changes_in(
        *(base + path.removeprefix(folder.rstrip("/")) for path in paths),
        watch_filter=None,
        recursive=False,
        debounce=GATHER_MS,
        rust_timeout=LISTEN_MS,
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=True,
    )
    for batch in batches:
        yield {(change, folder.rstrip("/") + path.removeprefix(base) or "/") for change, path in batch}


def _printable(path: str) -> str:
    """Return a path with escapes for the bytes that are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _regular(folder: int, name: bytes) -> bytes | None:
    """Read the beginning of a regular file without waiting on pipes or following links, as the listing does."""
    with closing(open_beneath(folder, (name,), os.O_RDONLY | os.O_NONBLOCK)) as handle:
        return os.read(handle, MAX_IGNORE_FILE + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else None
