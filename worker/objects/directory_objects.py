"""Objects as files of a directory."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from schemas.errors import FileError, SourceRefused, SourceUnavailable
from schemas.reason import Reason
from worker.machine.disk_space import DiskSpace
from worker.machine.handles import sync_directory

if TYPE_CHECKING:
    from worker.objects.object_store import ObjectReader, ObjectWriter

#: Within it, a directory is used.
Using = Callable[[], AbstractContextManager[None]]


def object_path(directory: Path, key: str) -> Path:
    """Return the file of a key in a directory of objects."""
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
    return directory / digest[:2] / digest[2:]


@dataclass(frozen=True)
class DirectoryObjects:
    """Objects as files named by the hash of their key, so that keys cannot leave the directory or exceed its limits."""

    directory: Path
    space: DiskSpace | None = None
    using: Using = nullcontext

    def put(self, key: str, data: bytes) -> None:
        """See `ObjectStore`."""
        writer = self.open(key)
        try:
            writer.write(data)
            writer.close()
        finally:
            # A full disk or a cancelled request must not leave half a file behind.
            writer.abort()

    def open(self, key: str) -> ObjectWriter:
        """See `ObjectStore`."""
        path = self._path(key)
        with self._errors():
            _make_directory(path.parent)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_unfinished(path))
        file = os.fdopen(handle, "wb")
        return _FileWriter(self.directory, path, Path(temporary), file, self._errors, self.space)

    def get(self, key: str, limit: int) -> bytes:
        """See `ObjectStore`."""
        with self._errors(), self._path(key).open("rb") as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise FileError(Reason.TOO_LARGE)
            return file.read()

    def reader(self, key: str, part: range | None = None) -> ObjectReader:
        """See `ObjectStore`."""
        with self._errors():
            file = self._path(key).open("rb")
            if part is None:
                part = range(os.fstat(file.fileno()).st_size)
            file.seek(part.start)
            return _FileReader(self.directory, file, part)

    def delete(self, key: str) -> None:
        """See `ObjectStore`."""
        with self._errors():
            self._path(key).unlink(missing_ok=True)

    def discard(self, key: str) -> None:
        """See `ObjectStore`."""
        self.delete(key)
        path = self._path(key)
        with self._errors(), suppress(FileNotFoundError), os.scandir(path.parent) as files:
            for file in files:
                if file.name.startswith(_unfinished(path)):
                    Path(file.path).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return object_path(self.directory, key)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with self.using(), _disk_errors(self.directory):
            yield


@dataclass(frozen=True)
class _FileReader:
    """An open file, which stays readable when its content is deleted."""

    directory: Path
    file: BinaryIO
    part: range

    @property
    def size(self) -> int:
        """See `ObjectReader`."""
        return len(self.part)

    def read(self, size: int) -> bytes:
        """See `ObjectReader`."""
        with _disk_errors(self.directory):
            return self.file.read(min(size, self.part.stop - self.file.tell()))

    def close(self) -> None:
        """See `ObjectReader`."""
        self.file.close()


@dataclass
class _FileWriter:
    """A file next to its final path. It is moved there once it is complete and on disk."""

    directory: Path
    path: Path
    temporary: Path
    file: BinaryIO
    errors: Using
    space: DiskSpace | None = None

    def write(self, data: bytes) -> None:
        """See `ObjectWriter`. Raises `DiskFull` as well."""
        with nullcontext() if self.space is None else self.space.adding(len(data)), _disk_errors(self.directory):
            self.file.write(data)

    def close(self) -> None:
        """See `ObjectWriter`."""
        with self.errors():
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            self.temporary.replace(self.path)
            sync_directory(self.path.parent)

    def abort(self) -> None:
        """See `ObjectWriter`."""
        with suppress(OSError):  # closing flushes, and fails again for what could not be written
            self.file.close()
        with _disk_errors(self.directory):
            self.temporary.unlink(missing_ok=True)


@contextmanager
def _disk_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(Reason.UNREADABLE, "The stored content is missing; upload the file again.") from error
    except PermissionError as error:
        raise SourceRefused(
            f"The directory of contents {directory} is not accessible to this process; grant it access."
        ) from error
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "?")
        raise SourceUnavailable(f"The directory of contents {directory} failed ({name}); check its disk.") from error


def _make_directory(path: Path) -> None:
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync_directory(path.parent)


def _unfinished(path: Path) -> str:
    """Return the name prefix of unfinished files for a path."""
    return f".new-{path.name}-"
