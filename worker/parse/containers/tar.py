"""Tar archives, plain or compressed by gzip, bzip2 or xz.

A compressed archive states no size, so it is unpacked up to the limit into a temporary file.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import re
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.containers import LONE_SURROGATE, Container, cleaned, damaged, too_much
from worker.parse.member_names import likely_encoding
from worker.parse.temporary import check_disk
from worker.sandbox.members import MAX_INFLATED_BYTES, MAX_MEMBERS, Member

_STEP_BYTES = 1 << 20
#: Maximum overhead of a member: two blocks of headers, and padding.
_HEADER_BYTES = 3 * tarfile.BLOCKSIZE
_COMPRESSIONS: dict[bytes, Callable[[IO[bytes]], io.BufferedIOBase]] = {
    b"\x1f\x8b": lambda packed: gzip.GzipFile(fileobj=packed),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
#: A byte that Python keeps of a name that is not UTF-8.
_RAW_BYTE = re.compile("[\udc80-\udcff]")
_ERRORS = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)


def open_tar(data: bytes) -> Container:
    """See `Opener`."""
    try:
        return _Tar(_unpack(data))
    except _ERRORS as error:
        raise damaged(error) from None


def _unpack(data: bytes) -> IO[bytes]:
    """Return the plain archive. Raises `FileError`."""
    opened = next((opened for magic, opened in _COMPRESSIONS.items() if data.startswith(magic)), None)
    if opened is None:
        return io.BytesIO(data)
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 - the container keeps it
    try:
        with opened(io.BytesIO(data)) as packed:
            _copy(packed, unpacked)
    except BaseException:  # after any interruption, nobody else holds the file
        unpacked.close()
        raise
    unpacked.seek(0)
    return unpacked


def _copy(packed: io.BufferedIOBase, unpacked: IO[bytes]) -> None:
    largest = MAX_INFLATED_BYTES + MAX_MEMBERS * _HEADER_BYTES + tarfile.RECORDSIZE
    while step := _next_step(packed, is_first=not unpacked.tell()):
        if unpacked.tell() + len(step) > largest:
            raise too_much()
        check_disk(len(step))
        try:
            unpacked.write(step)
        except OSError as error:
            if error.errno == errno.EFBIG:  # the system lets no process of parsers write more
                raise too_much() from None
            raise


def _next_step(packed: io.BufferedIOBase, *, is_first: bool) -> bytes:
    """Return the next unpacked bytes; empty at the end, and where an archive is truncated or damaged."""
    try:
        return packed.read1(_STEP_BYTES)
    except _ERRORS:
        if is_first:
            raise
        return b""


class _Tar:
    def __init__(self, unpacked: IO[bytes]) -> None:
        weakref.finalize(self, unpacked.close)
        self._archive = tarfile.open(fileobj=unpacked, mode="r:")  # noqa: SIM115 - it stays open for reads
        self._infos: dict[str, tarfile.TarInfo] = {}
        infos, total = list[tarfile.TarInfo](), 0
        for info in self._up_to_damage():
            infos.append(info)
            total += info.size
            if len(infos) > MAX_MEMBERS or total > MAX_INFLATED_BYTES:
                raise too_much()
        for name, info in zip(_names(infos), infos, strict=True):
            path = cleaned(name)
            if path and not info.isdir():
                self._infos[path] = info

    def _up_to_damage(self) -> Iterator[tarfile.TarInfo]:
        """Return the members before the damage or the end of a truncated archive, including the truncated one."""
        read = iter(self._archive)
        while True:
            try:
                info = next(read, None)
            except tarfile.TarError:
                return
            if info is None:
                return
            yield info

    def members(self) -> Iterator[Member]:
        """See `Container`."""
        for path, info in self._infos.items():
            yield Member(path, info.size, _reason(info))

    def read(self, path: str, limit: int) -> bytes:
        """See `Container`."""
        info = self._infos.get(path)
        reason = Reason.UNREADABLE if info is None else _reason(info)
        if info is None or reason:
            raise FileError(reason or Reason.UNREADABLE)
        if info.size > limit:
            raise FileError(Reason.TOO_LARGE)
        try:
            file = self._archive.extractfile(info)
            return file.read() if file else b""
        except _ERRORS as error:
            raise damaged(error) from None


def _names(infos: Sequence[tarfile.TarInfo]) -> list[str]:
    """Return the names of members. Those that are not UTF-8 are in one encoding, the likeliest."""
    raw = [info.name.encode("utf-8", "surrogateescape") for info in infos if _is_raw(info.name)]
    encoding = likely_encoding(raw) if raw else ""
    names = iter(name.decode(encoding, "replace") for name in raw)
    return [next(names) if _is_raw(info.name) else info.name for info in infos]


def _is_raw(name: str) -> bool:
    """Return whether a name has bytes that are not UTF-8, and nothing else that UTF-8 cannot hold."""
    return bool(_RAW_BYTE.search(name)) and not LONE_SURROGATE.search(name)


def _reason(info: tarfile.TarInfo) -> Reason | None:
    if info.issym() or info.islnk():
        return Reason.SYMLINK
    return None if info.isfile() else Reason.NOT_A_FILE
