"""The mark of a directory: a small file with a random id, which identifies the directory from every machine."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

from worker.machine.handles import sync_directory

#: Name of the file.
FILE = ".foldex-directory"
#: Bytes that are read of the file, more than it has.
_MAX_BYTES = 128
#: Seconds after its last change when a mark counts as at rest. File clocks are too coarse to distinguish two changes.
REST_S = 1.0
#: Errors of file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class Mark(NamedTuple):
    """The id of a directory, and of the installation that made it."""

    id: UUID
    installation: UUID


#: Represents a file that is not a mark. No directory has this id.
_DAMAGED = Mark(UUID(int=0), UUID(int=0))


def new_mark(installation: UUID) -> Mark:
    """Return a mark that no directory has."""
    return Mark(uuid4(), installation)


def read_mark(directory: Path) -> Mark | None:
    """Return the mark of a directory; None if it has none or is missing. Raises `OSError` if that is unknown."""
    try:
        file = os.open(directory / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        text = os.read(file, _MAX_BYTES)
    finally:
        os.close(file)
    try:
        id_, installation = map(UUID, text.decode().split())
    except ValueError:
        return _DAMAGED
    return Mark(id_, installation)


class MarkReader:
    """Reads the mark of a directory repeatedly. While its file stays the same, that takes one system call."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._file = directory, directory / FILE
        #: The identity of the file, and the mark in it.
        self._last: tuple[tuple[int, ...], Mark | None] | None = None

    def read(self) -> Mark | None:
        """See `read_mark`."""
        try:
            found = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        last = self._last
        if last is not None and last[0] == state:
            return last[1]
        mark = read_mark(self._directory)
        self._last = (state, mark) if time.time() - found.st_ctime > REST_S else None
        return mark


def add_mark(directory: Path, mark: Mark) -> None:
    """Create the directory if it is missing, and give it this mark unless it has one. Raises `OSError`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = _write(directory, mark)
    try:
        os.link(written, directory / FILE)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _add_without_links(directory, mark)
    finally:
        written.unlink()
    sync_directory(directory)


def replace_mark(directory: Path, mark: Mark) -> None:
    """Create the directory if it is missing, and replace any other mark by this one. Raises `OSError`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(directory, mark).replace(directory / FILE)
    sync_directory(directory)


def _add_without_links(directory: Path, mark: Mark) -> None:
    # a process that dies in between leaves an empty file, which counts as damaged
    with suppress(FileExistsError):
        file = os.open(directory / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, _text(mark))
            os.fsync(file)
        finally:
            os.close(file)


def _write(directory: Path, mark: Mark) -> Path:
    """Write a complete file beside the mark."""
    handle, path = tempfile.mkstemp(dir=directory, prefix=f"{FILE}-")
    with os.fdopen(handle, "wb") as file:
        file.write(_text(mark))
        file.flush()
        os.fsync(handle)
    return Path(path)


def _text(mark: Mark) -> bytes:
    return f"{mark.id} {mark.installation}\n".encode()
