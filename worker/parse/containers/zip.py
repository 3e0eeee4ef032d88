"""Zip archives. Their directory states all sizes, so limits are checked before anything is unpacked.

An archive that is cut has no directory. Its members are listed by their own heads, and the one that is cut fails.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Iterator

from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse import zip_members
from worker.parse.containers import Container, cleaned, damaged, too_much
from worker.sandbox.members import MAX_INFLATED_BYTES, MAX_MEMBERS, Member

#: Most bytes of an archive's directory: room for a long name of each member. Once read, it takes ten times as many.
MAX_DIRECTORY_BYTES = 1_500 * MAX_MEMBERS
#: Bytes of the record at an archive's end with its longest comment, and of a large archive's records before it.
_END_BYTES, _LOCATOR_BYTES = 22 + 65_535, 20
#: Represents a size that does not fit the record.
_ELSEWHERE = 0xFFFF_FFFF
_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, NotImplementedError)


def open_zip(data: bytes) -> Container:
    """See `Opener`."""
    if _directory_bytes(data) > MAX_DIRECTORY_BYTES:
        raise too_much()
    try:
        archive, _ = zip_members.open_zip(data, MAX_INFLATED_BYTES)
    except zip_members.TooMuchError:
        raise too_much() from None
    except _ERRORS as error:
        raise damaged(error) from None
    return _Zip(archive, len(data))


def _directory_bytes(data: bytes) -> int:
    """Return the size that an archive states for its directory; 0 if it states none."""
    end = data.rfind(b"PK\x05\x06", max(0, len(data) - _END_BYTES))
    size = int.from_bytes(data[end + 12 : end + 16], "little") if end >= 0 else 0
    if size != _ELSEWHERE or not data.startswith(b"PK\x06\x07", max(0, end - _LOCATOR_BYTES)):
        return size
    record = int.from_bytes(data[end - 12 : end - 4], "little")
    return int.from_bytes(data[record + 40 : record + 48], "little")


class _Zip:
    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive, self._size = archive, size
        # of members with one name, the last counts, as for programs that unpack
        self._infos = {
            path: info for info in archive.infolist() if (path := cleaned(info.filename)) and not info.is_dir()
        }

    def members(self) -> Iterator[Member]:
        """See `Container`."""
        infos = self._archive.infolist()
        # members that share their bytes can claim more than the archive has
        overlap = sum(info.compress_size for info in infos) > self._size
        if overlap or len(infos) > MAX_MEMBERS or sum(info.file_size for info in infos) > MAX_INFLATED_BYTES:
            raise too_much()
        for path, info in self._infos.items():
            yield Member(path, info.file_size, Reason.ENCRYPTED if info.flag_bits & zip_members.IS_ENCRYPTED else None)

    def read(self, path: str, limit: int) -> bytes:
        """See `Container`."""
        info = self._infos.get(path)
        if info is None:
            raise FileError(Reason.UNREADABLE)
        if info.flag_bits & zip_members.IS_ENCRYPTED:
            raise FileError(Reason.ENCRYPTED)
        if info.file_size > limit:
            raise FileError(Reason.TOO_LARGE)
        try:
            # never returns more bytes than the directory states
            return self._archive.read(info)
        except _ERRORS as error:
            raise damaged(error) from None
