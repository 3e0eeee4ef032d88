"""Attachments of Outlook messages."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.containers import Container, cleaned, of_its_own, too_much
from worker.parse.mail.outlook_parts import BINARY, DATA, FILE_NAMES, NARROW, WIDE, attachments, path_of, stream
from worker.sandbox.members import MAX_INFLATED_BYTES, MAX_MEMBERS, Member


def open_outlook(data: bytes) -> Container:
    """See `Opener`. Attached messages are parts of the compound file, and no files. Other files have no attachments."""
    import olefile

    return _Outlook(olefile.OleFileIO(BytesIO(data)) if data.startswith(olefile.MAGIC) else None)


class _Outlook:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._folders: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        folders = attachments(file) if file else ()
        for number, folder in enumerate(folders, 1):
            if number > MAX_MEMBERS:
                raise too_much()
            if file.exists(path_of(DATA, BINARY, folder)):
                name = of_its_own(_name(file, folder, number), number, self._folders)
                self._folders[name] = folder
                self._sizes[name] = file.get_size(path_of(DATA, BINARY, folder))
        # several streams may share their bytes
        if sum(self._sizes.values()) > MAX_INFLATED_BYTES:
            raise too_much()

    def members(self) -> Iterator[Member]:
        """See `Container`."""
        for path, size in self._sizes.items():
            yield Member(path, size)

    def read(self, path: str, limit: int) -> bytes:
        """See `Container`."""
        if path not in self._folders:
            raise FileError(Reason.UNREADABLE)
        if self._sizes[path] > limit:
            raise FileError(Reason.TOO_LARGE)
        return stream(self._file, DATA, BINARY, self._folders[path])


def _name(file: Any, folder: str, number: int) -> str:
    """Return the file name that an attachment states, as one name without directories."""
    for property_ in FILE_NAMES:
        wide, narrow = stream(file, property_, WIDE, folder), stream(file, property_, NARROW, folder)
        stated = wide.decode("utf-16-le", "replace") if wide else narrow.decode("cp1252", "replace")
        name = cleaned(" ".join(stated.rstrip("\0").replace("/", "_").replace("\\", "_").split()))
        if name:
            return name
    return f"attachment {number}"
