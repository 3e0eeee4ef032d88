"""The directories of a local folder, each opened from its parent's handle without following links."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from worker.machine.handles import Identity, identity, identity_of, open_beneath
from worker.sources.local_keys import Parts

#: Maximum number of directories that a listing has open at a time.
MAX_OPEN = 32
#: Maximum names of one directory held at a time. A larger directory is read again for its next names, which bounds
#: memory.
WINDOW = 20_000

#: A name and its file information; None represents the directory itself, which could not be listed.
NameInfo = tuple[bytes, os.stat_result | None]


class DirectoryClosed(PermissionError):
    """Raised for a directory with Foldex' own data of every project."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, os.strerror(errno.EACCES))


class OpenDirectories:
    """The open directories on the path to the last requested one, so that a walk opens each once.

    `root` opens the folder that contains all of these. No `closed` directory is entered, whatever its path.
    """

    def __init__(
        self, root: Callable[[], AbstractContextManager[int]], closed: Collection[Identity] = frozenset()
    ) -> None:
        self._root, self._closed = root, closed
        #: Each is below the previous one.
        self._opened: list[tuple[Parts, int]] = []

    def handle(self, parts: Parts) -> int:
        """Return a handle of a directory, open until another one is requested. Raises the errors of opening it."""
        opened = self._opened
        while opened and parts[: len(opened[-1][0])] != opened[-1][0]:
            os.close(opened.pop()[1])
        if not opened:
            with self._root() as root:
                opened.append(((), os.dup(root)))
        for depth in range(len(opened[-1][0]), len(parts)):
            opened.append((parts[: depth + 1], self._below(opened[-1][1], parts[depth])))
            if len(opened) > MAX_OPEN:
                os.close(opened.pop(0)[1])
        return opened[-1][1]

    def info(self, key: bytes) -> os.stat_result:
        """Return the file information of a file, or of a link itself. Raises the errors of opening its directory."""
        *folders, name = key.split(b"/")
        return os.stat(name, dir_fd=self.handle(tuple(folders)), follow_symlinks=False)

    def _below(self, parent: int, name: bytes) -> int:
        handle = open_beneath(parent, (name,))
        if identity(handle) in self._closed:
            os.close(handle)
            raise DirectoryClosed
        return handle

    def close(self) -> None:
        """Close all directories. They may be requested again."""
        while self._opened:
            os.close(self._opened.pop()[1])

    @contextmanager
    def closing(self) -> Iterator[OpenDirectories]:
        """Close all directories when the block ends."""
        try:
            yield self
        finally:
            self.close()


def closed_directories(home: Path | None) -> frozenset[Identity]:
    """Return FOLDEX_HOME and the directories in it, because any of these may also be mounted elsewhere."""
    closed: set[Identity] = set()
    if home is not None:
        with suppress(OSError):
            closed.add(identity_of(os.stat(home)))  # noqa: PTH116 - a Path is of no use here
            with os.scandir(home) as items:
                inside = [item.stat(follow_symlinks=False) for item in items if item.is_dir(follow_symlinks=False)]
            closed.update(map(identity_of, inside))
    return frozenset(closed)


def scan_names(handle: int, start: bytes) -> tuple[Sequence[NameInfo], bytes | None]:
    """Return some names of a directory in order, from `start`, and the start of the next ones."""
    names, is_cut = _first_names(handle, start)
    infos = [(name, info) for name in names if (info := info_of(name, handle))]
    return infos, names[-1] + b"\0" if is_cut else None


def _first_names(handle: int, start: bytes) -> tuple[Sequence[bytes], bool]:
    """Return the first `WINDOW` names in order, from `start`, and whether there are more."""
    names: list[bytes] = []
    is_cut = False
    with os.scandir(handle) as listing:
        for item in listing:
            name = os.fsencode(item.name)
            if name >= start:
                names.append(name)
            if len(names) >= 2 * WINDOW:
                names.sort()
                del names[WINDOW:]
                is_cut = True
    names.sort()
    return names[:WINDOW], is_cut or len(names) > WINDOW


def info_of(name: bytes, folder: int) -> os.stat_result | None:
    """Return the file information of a name in a directory; None if it is gone."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        # The file was deleted after its name was read.
        return None
