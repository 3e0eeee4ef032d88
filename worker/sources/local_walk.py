"""Lists a local folder's files by name only, many times faster than a full listing, for callers that read few.

Rules are applied to directories only. For the files that matter, call `LocalFolder.leaves_out`. As in a listing, no
link is followed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.errors import FileError
from worker.ignore import IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail
from worker.sources.local import TRUSTED_AGE_NS, LocalFolder
from worker.sources.local_directories import DirectoryClosed, OpenDirectories
from worker.sources.local_git import EXCLUDE, GIT, git_patterns, kind_of
from worker.sources.local_keys import Parts, key_of

_Stamp = tuple[int, int, int, int] | None


class _Child(NamedTuple):
    """An entry of a directory. `size` is a regular file's."""

    name: bytes
    is_directory: bool
    size: int | None


_Children = list[_Child]


@dataclass(slots=True)
class WalkedFolder:
    """Keys and sizes of the files below a folder, with stamps that show whether its directories and rules changed."""

    folder: bytes
    files: list[tuple[bytes, int]] = field(default_factory=list)
    stamps: dict[bytes, _Stamp] = field(default_factory=dict)
    began: int = field(default_factory=time.time_ns)

    def path(self, parts: Parts) -> bytes:
        """Return the absolute path of `parts`, which is relative to the folder."""
        return b"/".join((self.folder, *parts)) or b"/"

    @property
    def is_settled(self) -> bool:
        """Whether any later change would be visible: nothing changed just before the walk."""
        newest = max((stamp[0] for stamp in self.stamps.values() if stamp), default=0)
        return self.began - newest > TRUSTED_AGE_NS

    def is_current(self) -> bool:
        """Return whether directories and rules are unchanged. Sizes of files may have changed."""
        return all(_stamp(path) == stamp for path, stamp in self.stamps.items())


def walk(source: LocalFolder, rules: Rules, names: WalkedFolder, top: Parts = ()) -> Iterator[tuple[bytes, int]]:
    """Record in `names`, and yield, the regular files at or below `top`, in the order of `LocalFolder.list`."""
    with source.open_directories().closing() as directories:
        yield from _Walk(source, rules, names, directories).files(top)


class _Walk:
    """One walk of a folder. The entries of a directory whose rules were loaded are kept until it is entered."""

    def __init__(self, source: LocalFolder, rules: Rules, names: WalkedFolder, directories: OpenDirectories) -> None:
        self._source, self._names, self._directories = source, names, directories
        self._trail: Trail[bytes] = Trail(
            rules, os.fsdecode, self._ignore_files, above=lambda: source.git.above(names.folder), kind=self._kind
        )
        self._scanned: dict[Parts, _Children] = {}

    def files(self, top: Parts) -> Iterator[tuple[bytes, int]]:
        if not self._is_open(top[:-1]) or self._trail.pruned(top[:-1]):
            return
        found = [item for item in self._children(top[:-1]) if not top or item.name == top[-1]]
        stack = [(top[:-1], iter(found))]
        while stack:
            parent, children = stack[-1]
            item = next(children, None)
            if item is None:
                stack.pop()
            elif item.is_directory:
                parts = (*parent, item.name)
                self._scanned.clear()
                if self._is_open(parts) and not self._trail.pruned(parts):
                    stack.append((parts, iter(self._children(parts))))
            elif item.size is not None:
                self._names.files.append((key_of((*parent, item.name)), item.size))
                yield self._names.files[-1]

    def _is_open(self, parts: Parts) -> bool:
        """Return whether a directory exists, is not a link, and is not closed."""
        try:
            self._directories.handle(parts)
        except DirectoryClosed:
            return False
        except OSError as error:
            # an unlistable directory is recorded as well, so that a change of its permissions shows
            return error.errno == errno.EACCES
        return True

    def _kind(self, parts: Parts) -> str | None:
        with suppress(OSError):
            return kind_of(self._directories, self._names.folder, parts)
        return None

    def _ignore_files(self, parts: Parts) -> Iterator[IgnoreFile]:
        # a directory is only opened if it is not excluded
        self._scanned[parts] = self._scan(parts)
        if any(item.name == os.fsencode(GIT) for item in self._scanned[parts]):
            for beside in (GIT, EXCLUDE):
                path = self._names.path((*parts, beside.encode()))
                self._names.stamps[path] = _stamp(path)
            with suppress(OSError):
                yield from [*git_patterns(self._directories.handle(parts), self._source.git.user)]
        present = {item.name for item in self._scanned[parts] if not item.is_directory}
        for name in (name for name in map(os.fsencode, IGNORE_FILES) if name in present):
            path = self._names.path((*parts, name))
            self._names.stamps[path] = _stamp(path)
            try:
                yield os.fsdecode(name), self._source.read(key_of((*parts, name)), MAX_IGNORE_FILE).data
            except FileError:
                yield os.fsdecode(name), None

    def _children(self, parts: Parts) -> _Children:
        """Return the entries of a directory, reused if already scanned."""
        return self._scanned[parts] if parts in self._scanned else self._scan(parts)

    def _scan(self, parts: Parts) -> _Children:
        """Return the entries of a directory, sorted by name; empty if it cannot be listed."""
        path = self._names.path(parts)
        self._names.stamps[path] = _stamp(path)
        try:
            handle = self._directories.handle(parts)
            with os.scandir(handle) as listing:
                return sorted(map(_walked, listing))
        except OSError:
            return []


def _walked(item: os.DirEntry[str]) -> _Child:
    is_directory, size = item.is_dir(follow_symlinks=False), None
    # a file may be deleted after its name was read
    with suppress(OSError):
        size = item.stat(follow_symlinks=False).st_size if item.is_file(follow_symlinks=False) else None
    return _Child(os.fsencode(item.name), is_directory, size)


def _stamp(path: bytes) -> _Stamp:
    """Return the change times and inode at a path. A path that leads elsewhere now has another stamp."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev
