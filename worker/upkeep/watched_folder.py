"""A directory whose changes are received from the system."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

import structlog
from watchfiles import Change
from watchfiles import watch as changes_in

from worker.ignore import IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail

#: If this many changes arrive at once, the system may have dropped some.
MANY_CHANGES = 1000
#: Milliseconds for which changes of one folder are gathered, while more arrive.
GATHER_MS = 400
#: Milliseconds after which a folder's thread wakes up without any change.
LISTEN_MS = 500

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """A directory, distinguished from another that takes its name."""

    path: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class SeenChanges:
    """What changed in a folder: paths relative to it, or None if it may be anything."""

    paths: frozenset[str] | None

    def __or__(self, other: SeenChanges) -> SeenChanges:
        if self.paths is None or other.paths is None or len(self.paths | other.paths) > MANY_CHANGES:
            return ANYTHING
        return SeenChanges(self.paths | other.paths)

    def __bool__(self) -> bool:
        return self.paths is None or bool(self.paths)


NOTHING, ANYTHING = SeenChanges(frozenset()), SeenChanges(None)


class WatchedFolder:
    """A directory whose changes a thread receives: all of them once `ready`. `wake` is called for each.

    Each directory that a listing enters is watched by itself. So ignored directories and links' targets take no handle,
    and an unreadable directory hides no other. `stale`: directories were added or changes may have been missed, so the
    folder must be watched again, and what is `unheard` listed then. `ended`: no more changes are received, because the
    directory vanished or watching `failed`.
    """

    def __init__(self, place: DirectoryIdentity, rules: Rules, closed: str, wake: Callable[[], None]) -> None:
        self.place = place
        self.ready, self.stale, self.ended = Event(), Event(), Event()
        self.failed = False
        self.unheard = NOTHING
        #: Seconds of processor time to find the directories.
        self.took = 0.0
        self._seen = NOTHING
        self._lock = Lock()
        self._wake = wake
        self._closed = closed
        self._stop = Event()
        self._watched: set[str] = set()
        self._trail: Trail[str] = Trail(rules, str, self._ignore_files)
        Thread(target=self._listen, name=f"watch {place.path}", daemon=True).start()

    def close(self) -> None:
        """Stop receiving changes."""
        self._stop.set()

    def take(self) -> SeenChanges:
        """Return what changed since the last call."""
        with self._lock:
            seen, self._seen = self._seen, NOTHING
        return seen

    def _note(self, seen: SeenChanges) -> None:
        with self._lock:
            self._seen |= seen

    def _listen(self) -> None:
        try:
            self._watched.update(self._directories())
            for batch in _changes_in(*self._watched, stop=self._stop):
                if not self.ready.is_set():
                    self._begin()
                    self.ready.set()
                    self._wake()
                if batch:
                    self._hear(batch)
                    self._wake()
                if self.ended.is_set():
                    return
        except FileNotFoundError:
            pass  # it vanished before it could be watched
        except UnicodeEncodeError as error:
            log.warning(
                "a folder cannot be watched, because the name of a directory in it is not UTF-8; it is scanned once a "
                "minute. Rename or exclude the directory.",
                path=_printable(self.place.path),
                directory=_printable(error.object),
            )
            self.failed = True
        except (OSError, RuntimeError) as error:
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
            self._wake()

    def _begin(self) -> None:
        """Check that everything is watched.

        Raises `OSError` if no handles are left, which is not reported otherwise.
        """
        next(changes_in(self.place.path, watch_filter=None, recursive=False, rust_timeout=1, yield_on_timeout=True))
        began = time.thread_time()
        # directories that were created during the search
        self._renew({path for path in self._directories() if path not in self._watched})
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

    def _renew(self, added: Collection[str]) -> None:
        if added:
            self.unheard |= SeenChanges(frozenset(map(self._relative, added)))
            self.stale.set()

    def _relative(self, path: str) -> str:
        return path.removeprefix(self.place.path).strip("/")

    def _hear(self, batch: Iterable[tuple[Change, str]]) -> None:
        changes = sorted(batch, key=lambda change: change[1])
        if (Change.deleted, self.place.path) in changes:
            self.ended.set()
        if len(changes) >= MANY_CHANGES:
            self.unheard = ANYTHING
            self._note(ANYTHING)
            self.stale.set()
            return
        self._trail.forget()
        came = {path for change, path in changes if change is Change.added}
        paths = {path for _, path in changes}
        seen = frozenset(self._relative(path) for path in paths if self._concerns(path, came=path in came))
        if any(path.rpartition("/")[2] in IGNORE_FILES for path in paths):
            # other directories may be watched under the new rules
            self.unheard, seen_paths = ANYTHING, None
            self.stale.set()
        else:
            # the folder itself has no name in it
            seen_paths = None if "" in seen else seen
        self._renew({path for path in paths if self._adds_directories(path, came=path in came)})
        self._note(SeenChanges(seen_paths))

    def _concerns(self, path: str, *, came: bool) -> bool:
        """Whether a listing could see the change of something that was just added (`came`) or was there before."""
        *folders, name = self._relative(path).split("/")
        if self._trail.pruned(tuple(folders)):
            return False
        is_file = self._trail.ignored(name) is None
        mode = _mode(path)
        if not mode:
            # it is gone: a directory that was moved away took along files for which no event arrives
            return is_file or (not came and bool(name) and self._trail.pruned((*folders, name)) is None)
        return not self._is_pruned(path, (*folders, name)) if name and stat.S_ISDIR(mode) else is_file

    def _adds_directories(self, path: str, *, came: bool) -> bool:
        """Whether there may be a directory that is not watched."""
        *folders, name = self._relative(path).split("/")
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


def _printable(path: str) -> str:
    """A path with escapes for the bytes that are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


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
