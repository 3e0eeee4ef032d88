"""A directory of this machine below one of the roots that the installation permits.

The folder's path may contain links, which are resolved once. From then on no link is followed: the real path is opened
from the root of the file system, and each directory below it from its parent's handle. So a directory that is replaced
by a link at any time has no effect.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.errors import FileError, FolderGone, SourceError, SourceRefused, SourceUnavailable
from schemas.reason import Reason
from worker.ignore import EVERYTHING, IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail
from worker.machine.handles import (
    OUT_OF_HANDLES,
    REGULAR_FILE,
    Identity,
    closing,
    identity,
    identity_of,
    lies_in,
    open_beneath,
    open_real,
    read_up_to,
)
from worker.machine.paths import is_below, real_path
from worker.sources.flat_listing import DIRECTORIES, topmost
from worker.sources.local_directories import (
    DirectoryClosed,
    NameInfo,
    OpenDirectories,
    closed_directories,
    info_of,
    scan_names,
)
from worker.sources.local_git import GIT, NOTHING_ABOVE, GitReach, git_patterns, kind_of
from worker.sources.local_keys import Parts, key_of, page_end, parts_of, parts_of_cursor, printable

#: Number of entries of one page.
PAGE_SIZE = 1000


#: Nanoseconds. A file changed less than this before it was read may change again within the same tick of its clock.
TRUSTED_AGE_NS = 2_000_000_000

#: The rule name under which the closed directory is counted as ignored.
CLOSED = "foldex_home"

#: Errors of a path that is gone, never existed, or has become a link.
_VANISHED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


class _WalkedName(NamedTuple):
    """A name from the walk. Without `info`: an incompletely listed directory. `ignored`: the excluding rule."""

    parts: Parts
    info: os.stat_result | None
    ignored: str | None = None

    @property
    def is_directory(self) -> bool:
        return self.info is not None and stat.S_ISDIR(self.info.st_mode)


def outside_roots(path: str, _real: str) -> SourceError:
    """Return the error for a path outside of LOCAL_SOURCE_ROOTS."""
    return SourceRefused(
        f"{path!r} is not an absolute path below one of LOCAL_SOURCE_ROOTS; choose one that is, or extend that "
        "setting. Where `make up` or `foldex up` runs, `foldex index FOLDER` permits a folder too."
    )


@dataclass(frozen=True, slots=True)
class OpenedPlace:
    """A directory, distinguished from another that takes its real path. `git`: see `LocalFolder`."""

    real_path: str
    identity: Identity
    git: GitReach = field(default=NOTHING_ABOVE, compare=False)


def no_folder(path: str) -> FolderGone:
    """Return the error for a path that leads to no directory."""
    return FolderGone(f"{path} is not a directory, or no longer exists; choose an existing directory.")


class LocalFolder:
    """A source over the directory `path`, whose real path must lie in one of `roots`, which are real paths.

    `refuse` creates the error for another real path. `git` grants access to git's patterns outside of the folder.
    Contents of the `closed` directory are never entered, whatever the rules say and whatever path leads there.
    """

    def __init__(
        self,
        path: str,
        roots: Sequence[Path | str],
        rules: Rules = EVERYTHING,
        *,
        closed: Path | None = None,
        refuse: Callable[[str, str], SourceError] = outside_roots,
        git: GitReach = NOTHING_ABOVE,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._path = path
        self._roots, self._refuse = [os.fspath(root) for root in roots], refuse
        self._home, self._closed, self.git = closed, closed_directories(closed), git
        self._trail: Trail[bytes] = Trail(
            rules, os.fsdecode, self._ignore_files, above=lambda: git.above(self.real_path), kind=self._kind
        )
        self._page_size = page_size
        #: The only paths to list, ascending, none below another one; None for the whole folder.
        self._tops: list[Parts] | None = None
        self._real_path: str | None = None
        self._paused_walk: tuple[str | None, Iterator[_WalkedName]] | None = None
        self._directories = self.open_directories()

    def resolve(self) -> str:
        """Return the current real path. Raises `SourceError` if it may not be read."""
        try:
            real = real_path(self._path) if self._path.startswith("/") else ""
        except ValueError:
            real = ""
        if not any(is_below(real, root) for root in self._roots):
            raise self._refuse(self._path, real)
        self._real_path = real
        return real

    def check(self) -> None:
        """Check the root, as `Source` says. Also resolves the path again, because a link in it may have changed."""
        self.resolve()
        with self._folder() as handle, self._folder_errors(), os.scandir(handle):
            pass

    def place(self) -> OpenedPlace:
        """Return the directory that is at the path now. Raises as `check` does."""
        with self._folder() as handle:
            return OpenedPlace(os.fsdecode(self.real_path) or "/", identity(handle), self.git)

    def list(self, cursor: str | None) -> ListingPage:
        """List a page, as `Source` says. Names are in byte order, with a directory's contents in its place.

        A directory that cannot be listed becomes an `unreadable` entry, and is one of the page's `unlisted`. Memory is
        bounded by `WINDOW` and the depth. The walk continues where the last page ended, or starts again from there.
        """
        if cursor is None:
            self._trail.forget()
        walk = self._walk_from(cursor)
        try:
            items = [*islice(walk, self._page_size)]
        finally:
            self._directories.close()
        last = items[-1].parts if len(items) == self._page_size else None
        after, spans = page_end(cursor, last, is_whole=self._tops is None)
        self._paused_walk = (after, walk)
        unlisted = tuple(key_of(item.parts) + b"/" for item in items if item.info is None)
        entries = [_entry(item) for item in items if item.ignored is None]
        ignored = Counter(item.ignored for item in items if item.ignored)
        ignored += self._trail.refused(None if cursor is None else parts_of_cursor(cursor)[:-1])
        return ListingPage(entries, after, unlisted, ignored, spans=spans)

    def narrow(self, keys: Sequence[bytes]) -> Sequence[bytes] | None:
        """See `Source`."""
        self._tops = topmost(map(parts_of, keys), [os.fsencode(name) for name in (*IGNORE_FILES, GIT)])
        return None if self._tops is None else [key_of(top) for top in self._tops]

    def leaves_out(self, key: bytes) -> bool:
        """See `Source`."""
        *folders, name = key.split(b"/")
        return self.leaves_out_folder(tuple(folders)) or bool(self._trail.ignored(os.fsdecode(name)))

    def leaves_out_folder(self, parts: Parts) -> bool:
        """Return whether a directory is excluded or closed, or lies in one. Rules decide for a missing directory."""
        with self._directories.closing():
            try:
                self._directories.handle(parts)
            except DirectoryClosed:
                return True
            except (OSError, SourceError):
                pass  # the rules of existing directories decide
            return bool(self._trail.pruned(parts))

    def near(self) -> None:
        """See `Source`."""

    @property
    def real_path(self) -> bytes:
        """Return the directory's path with links resolved. Raises as `resolve` does."""
        return os.fsencode(self._real_path or self.resolve()).rstrip(b"/")

    def open_directories(self) -> OpenDirectories:
        """Open the folder and the directories in it."""
        return OpenDirectories(self._folder, self._closed)

    def is_closed(self, info: os.stat_result) -> bool:
        """Return whether a directory is never entered."""
        return identity_of(info) in self._closed

    def holds_closed(self) -> bool:
        """Return whether the folder contains a directory that is never entered. Raises as `check` does."""
        if self._home is None or not self._closed:
            return False
        with self._folder() as folder, closing(os.open(self._home, os.O_RDONLY | os.O_DIRECTORY)) as home:
            return lies_in(home, {identity(folder)})

    def size_of(self, key: bytes) -> int | None:
        """Return the size of a regular file; None if there is none. Raises `SourceError`."""
        try:
            with self.open_directories().closing() as directories:
                info = directories.info(key)
        except OSError:
            return None
        return info.st_size if stat.S_ISREG(info.st_mode) else None

    def read(self, key: bytes, limit: int, _listed: str = "", /) -> FileContent:
        """Read a file, as `Source` says. Never blocks on a pipe or a device."""
        *folders, name = parts_of(key)
        with (
            _file_errors(),
            self.open_directories().closing() as directories,
            closing(_open_file(name, directories.handle(tuple(folders)))) as handle,
        ):
            return _read_steadily(handle, limit)

    @contextmanager
    def _folder(self) -> Iterator[int]:
        with self._folder_errors():
            folder = open_real(self.real_path)
        with closing(folder) as handle:
            with self._folder_errors():
                is_closed = bool(self._closed) and lies_in(handle, self._closed)
            if is_closed:
                raise SourceRefused(
                    "FOLDEX_HOME contains the content of every project and cannot be indexed; choose another folder."
                )
            yield handle

    @contextmanager
    def _folder_errors(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise SourceRefused(
                f"The directory {self._path} is not readable; grant this process read permission."
            ) from error
        except OSError as error:
            if error.errno in _VANISHED:
                raise no_folder(self._path) from error
            raise _unavailable(error) from error

    def _walk_from(self, cursor: str | None) -> Iterator[_WalkedName]:
        # Clear it first: a walk that has raised is exhausted, and continuing it would look like the end of the folder.
        walk, self._paused_walk = self._paused_walk, None
        if cursor is not None and walk and walk[0] == cursor:
            return walk[1]
        return self._walk(parts_of_cursor(cursor))

    def _walk(self, after: Parts) -> Iterator[_WalkedName]:
        stack = [self._children((), after) if self._tops is None else self._found_tops(self._tops, after)]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
            elif item.info is None:
                # A directory whose listing failed midway sorts before the cursor but must still be reported.
                if item.parts != after:
                    yield item
            elif item.is_directory:
                exclusion = (item.parts, CLOSED) if self.is_closed(item.info) else self._trail.pruned(item.parts)
                if not exclusion:
                    stack.append(self._children(item.parts, after))
                elif item.parts > after[: len(item.parts)]:
                    yield _WalkedName(item.parts, item.info, exclusion[1] + DIRECTORIES)
            elif item.parts > after:
                self._trail.pruned(item.parts[:-1])
                ignored = self._trail.ignored(os.fsdecode(item.parts[-1]))
                yield item if ignored is None else item._replace(ignored=ignored)

    def _found_tops(self, tops: Sequence[Parts], after: Parts) -> Iterator[_WalkedName]:
        """Yield the paths that exist outside excluded directories, starting with the one that leads to `after`."""
        unlisted: Parts | None = None
        for top in tops:
            if top < after[: len(top)] or self._trail.pruned(top[:-1]):
                continue
            try:
                info = info_of(top[-1], self._directories.handle(top[:-1]))
            except DirectoryClosed:
                continue
            except OSError as error:
                if error.errno in OUT_OF_HANDLES:
                    raise _unavailable(error) from error
                if error.errno not in _VANISHED and top[:-1] != unlisted:
                    unlisted = top[:-1]
                    yield _WalkedName(unlisted, None)
                continue
            if info is not None:
                yield _WalkedName(top, info)

    def _kind(self, parts: Parts) -> str | None:
        with suppress(FileError), _file_errors():
            return kind_of(self._directories, self.real_path, parts)
        return None

    def _ignore_files(self, parts: Parts) -> Iterator[IgnoreFile]:
        with suppress(FileError), _file_errors():
            yield from [*git_patterns(self._directories.handle(parts), self.git.user)]
        for name in self._names_in(parts):
            try:
                yield os.fsdecode(name), self.read(key_of((*parts, name)), MAX_IGNORE_FILE).data
            except FileError:
                yield os.fsdecode(name), None

    def _names_in(self, parts: Parts) -> Sequence[bytes]:
        """Return the ignore files in a directory. Listing names takes one open; trying each file would take four."""
        try:
            with _file_errors():
                handle = self._directories.handle(parts)
                infos = [(name, info_of(name, handle)) for name in map(os.fsencode, IGNORE_FILES)]
                # A directory with such a name is not an ignore file, as in sources without directories.
                return [name for name, info in infos if info and not stat.S_ISDIR(info.st_mode)]
        except FileError:
            return ()

    def _children(self, parent: Parts, after: Parts) -> Iterator[_WalkedName]:
        """Yield the contents of one directory, starting at the name that leads to `after`."""
        start: bytes | None = after[len(parent)] if len(after) > len(parent) and after[: len(parent)] == parent else b""
        while start is not None:
            try:
                names, start = self._window(parent, start)
            except OSError as error:
                if error.errno in OUT_OF_HANDLES:
                    raise _unavailable(error) from error
                names, start = [] if error.errno in _VANISHED else [(b"", None)], None
            for name, info in names:
                yield _WalkedName((*parent, name) if info else parent, info)

    def _window(self, parent: Parts, start: bytes) -> tuple[Sequence[NameInfo], bytes | None]:
        """Return some names of a directory in order, from `start`, and the start of the next ones."""
        handle = self._directories.handle(parent)
        if parent:
            return scan_names(handle, start)
        with self._folder_errors():
            return scan_names(handle, start)


def _open_file(name: bytes, folder: int) -> int:
    """Open a regular file. Its type is checked first, because opening a device can have side effects."""
    _refuse_special(os.stat(name, dir_fd=folder, follow_symlinks=False))
    return open_beneath(folder, (name,), REGULAR_FILE)


def _refuse_special(info: os.stat_result) -> None:
    reason = _reason(info)
    if reason:
        raise FileError(reason)


def _read_steadily(handle: int, limit: int) -> FileContent:
    """Return the bytes between two equal stamps, in two attempts. A file that keeps changing has no stamp."""
    for _ in range(2):
        before = os.fstat(handle)
        _refuse_special(before)
        os.lseek(handle, 0, os.SEEK_SET)
        data = _bytes(handle, limit)
        if _stamp(os.fstat(handle)) == _stamp(before):
            is_recent = time.time_ns() - before.st_mtime_ns < TRUSTED_AGE_NS
            return FileContent(data, None if is_recent else _stamp(before))
    return FileContent(data, None)


def _bytes(handle: int, limit: int) -> bytes:
    data = read_up_to(handle, limit + 1)
    if len(data) > limit:
        raise FileError(Reason.TOO_LARGE)
    return data


@contextmanager
def _file_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in OUT_OF_HANDLES:
            raise _unavailable(error) from error
        raise FileError(_REASONS.get(error.errno or 0, Reason.UNREADABLE)) from error


#: Reasons for a file that became a link, a socket or a device between listing and reading.
_REASONS = {errno.ELOOP: Reason.SYMLINK, errno.ENXIO: Reason.NOT_A_FILE, errno.ENODEV: Reason.NOT_A_FILE}


def _unavailable(error: OSError) -> SourceUnavailable:
    name = errno.errorcode.get(error.errno or 0, "?")
    return SourceUnavailable(f"The file system failed ({name}); check the disk, its mount and the limit on open files.")


def _entry(item: _WalkedName) -> SourceEntry:
    key, info = key_of(item.parts), item.info
    path = printable(key)
    return SourceEntry(
        key=key,
        path=path,
        id_path=f"/{path}",
        node_id=None,
        size=info.st_size if info else 0,
        stamp=_stamp(info) if info else "unlisted",
        mtime_ms=info.st_mtime_ns // 1_000_000 if info else None,
        reason=_reason(info) if info else Reason.UNREADABLE,
    )


def _reason(info: os.stat_result) -> Reason | None:
    if stat.S_ISREG(info.st_mode):
        return None
    if stat.S_ISDIR(info.st_mode):
        # It was listed as a directory that could not be entered. It still cannot be read as a file.
        return Reason.UNREADABLE
    return Reason.SYMLINK if stat.S_ISLNK(info.st_mode) else Reason.NOT_A_FILE


def _stamp(info: os.stat_result) -> str:
    return f"{info.st_size}-{info.st_mtime_ns}-{info.st_ctime_ns}-{info.st_ino}"
