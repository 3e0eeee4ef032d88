"""Lists a local folder's files by name only, many times faster than a full listing, for callers that read few of them.

Rules are applied to directories only. For the files that matter, ask `LocalFolder.leaves_out`. Paths are used as they
are, so a link that replaces a directory during the walk may add foreign names. `LocalFolder.read` never reads foreign
files.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from schemas.errors import FileError
from worker.ignore import IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail
from worker.sources.local import TRUSTED_AGE_NS, LocalFolder
from worker.sources.local_keys import Parts

_Stamp = tuple[int, int, int, int] | None
_Children = list[os.DirEntry[bytes]]


@dataclass(slots=True)
class WalkedFolder:
    """Keys and sizes of the files below a folder, with stamps that show whether its directories and rules changed."""

    folder: bytes
    files: list[tuple[bytes, int]] = field(default_factory=list)
    stamps: dict[bytes, _Stamp] = field(default_factory=dict)
    began: int = field(default_factory=time.time_ns)

    def path(self, parts: Parts) -> bytes:
        """The absolute path of `parts`, which is relative to the folder."""
        return b"/".join((self.folder, *parts)) or b"/"

    @property
    def is_settled(self) -> bool:
        """Whether any later change would be visible: nothing changed just before the walk."""
        newest = max((stamp[0] for stamp in self.stamps.values() if stamp), default=0)
        return self.began - newest > TRUSTED_AGE_NS

    def is_current(self) -> bool:
        """Whether directories and rules are unchanged. Sizes of files may have changed."""
        return all(_stamp(path) == stamp for path, stamp in self.stamps.items())


def walk(source: LocalFolder, rules: Rules, names: WalkedFolder, top: Parts = ()) -> Iterator[tuple[bytes, int]]:
    """Record in `names`, and yield, the regular files at or below `top`, in the order of `LocalFolder.list`."""
    scanned: dict[Parts, _Children] = {}

    def load(parts: Parts) -> Iterator[IgnoreFile]:
        # A directory is only opened if it is not excluded.
        scanned[parts] = _scan(names, parts)
        present = {item.name for item in scanned[parts] if not item.is_dir(follow_symlinks=False)}
        for name in (name for name in map(os.fsencode, IGNORE_FILES) if name in present):
            path = names.path((*parts, name))
            names.stamps[path] = _stamp(path)
            try:
                yield os.fsdecode(name), source.read(b"/".join((*parts, name)), MAX_IGNORE_FILE).data
            except FileError:
                yield os.fsdecode(name), None

    trail: Trail[bytes] = Trail(rules, os.fsdecode, load)
    if not _is_real(names, top[:-1]) or source.is_closed(top) or trail.pruned(top[:-1]):
        return
    stack = [iter([item for item in _children(names, top[:-1], scanned) if not top or item.name == top[-1]])]
    prefix = len(names.folder) + 1
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif item.is_dir(follow_symlinks=False):
            parts = tuple(item.path[prefix:].split(b"/"))
            scanned.clear()
            if not source.is_closed(parts) and not trail.pruned(parts):
                stack.append(iter(_children(names, parts, scanned)))
        elif (size := _size(item)) is not None:
            names.files.append((item.path[prefix:], size))
            yield names.files[-1]


def _children(names: WalkedFolder, parts: Parts, scanned: dict[Parts, _Children]) -> _Children:
    """The entries of a directory, reused if already scanned."""
    return scanned[parts] if parts in scanned else _scan(names, parts)


def _scan(names: WalkedFolder, parts: Parts) -> _Children:
    """The entries of a directory, sorted by name; empty if it cannot be listed."""
    path = names.path(parts)
    names.stamps[path] = _stamp(path)
    try:
        with os.scandir(path) as listing:
            return sorted(listing, key=attrgetter("name"))
    except OSError:
        return []


def _is_real(names: WalkedFolder, parts: Parts) -> bool:
    """Whether `parts` leads to a directory without following a link."""
    try:
        return all(stat.S_ISDIR(os.lstat(names.path(parts[:end])).st_mode) for end in range(1, len(parts) + 1))
    except OSError:
        return False


def _size(item: os.DirEntry[bytes]) -> int | None:
    try:
        return item.stat(follow_symlinks=False).st_size if item.is_file(follow_symlinks=False) else None
    except OSError:
        # The file was deleted after its name was read.
        return None


def _stamp(path: bytes) -> _Stamp:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev
