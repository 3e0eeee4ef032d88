"""Opens ZIP files, also those that are cut or whose names are in an unknown encoding, and reads damaged members.

The directory at the end of a ZIP file lists its members. Each member also has a head of its own (PKWARE's APPNOTE,
4.3.7), from which a lost directory is made again.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from worker.parse.member_names import likely_encoding

#: A member's head: version, flags, method, time, date, checksum, sizes, lengths of the name and the extra fields.
_HEAD = struct.Struct("<4s5H3L2H")
_HEAD_MARK, _DESCRIPTOR_MARK, _ENTRY_MARK, _END_MARK = b"PK\3\4", b"PK\7\x08", b"PK\1\2", b"PK\5\6"
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
#: Flags: the data is encrypted; the sizes stand behind it; the name is in UTF-8.
IS_ENCRYPTED, _SIZES_BEHIND, _IS_UTF8 = 0x1, 0x8, 0x800
#: Says that a size stands in an extra field, and the ids of extra fields: of sizes, and of a name in UTF-8.
_ELSEWHERE, _SIZES_FIELD, _NAME_FIELD = 0xFFFF_FFFF, 1, 0x7075
_STEP_BYTES = 1 << 16
#: The highest version of the format that the library reads.
_MAX_VERSION = 63
#: Most members of a file without a directory.
MAX_RECOVERED = 20_000


class TooMuchError(Exception):
    """A file without a directory has too many members, or inflates to too much."""


def open_zip(data: bytes, max_bytes: int) -> tuple[ZipFile, bool]:
    """Return the file, and whether it lacks its directory and so perhaps more. Names are in their likeliest encoding.

    Members of a file without a directory are inflated to find where they end, up to `max_bytes`. Raises `BadZipFile`,
    `TooMuchError`, and what `ZipFile` raises.
    """
    try:
        archive, is_cut = ZipFile(BytesIO(data)), False
    except (BadZipFile, ValueError, NotImplementedError, struct.error):
        if not data.startswith(_HEAD_MARK):
            raise
        archive, is_cut = ZipFile(BytesIO(_with_directory(data, max_bytes))), True
    _name_members(archive)
    return archive, is_cut


# a lost directory


@dataclass(frozen=True, slots=True)
class _Found:
    """The facts in a member's header, with the actual checksum and sizes of the data."""

    start: int
    version: int
    flags: int
    method: int
    stamp: tuple[int, int]
    checksum: int
    packed: int
    size: int
    name: bytes


def _with_directory(data: bytes, max_bytes: int) -> bytes:
    """Return the file with a directory of the members whose heads are found. Raises `TooMuchError`."""
    found: list[_Found] = []
    for member in _found(data, max_bytes):
        found.append(member)
        if len(found) > MAX_RECOVERED:
            raise TooMuchError
    directory = b"".join(map(_entry, found))
    count = min(len(found), 0xFFFF)
    end = _END.pack(_END_MARK, 0, 0, count, count, len(directory), len(data), 0)
    return data + directory + end


def _entry(member: _Found) -> bytes:
    flags = member.flags & ~_SIZES_BEHIND
    sizes = member.checksum, member.packed, member.size, len(member.name)
    version = min(member.version, _MAX_VERSION)
    head = (version, version, flags, member.method, *member.stamp, *sizes)
    return _ENTRY.pack(_ENTRY_MARK, *head, 0, 0, 0, 0, 0, member.start) + member.name


def _found(data: bytes, max_bytes: int) -> Iterator[_Found]:
    at, left, marks = 0, max_bytes, _Marks(data)
    while (start := data.find(_HEAD_MARK, at)) >= 0 and start + _HEAD.size <= len(data):
        _, version, flags, method, *stamp, checksum, packed, size, name_size, extra_size = _HEAD.unpack_from(
            data, start
        )
        name_end = start + _HEAD.size + name_size
        begin = name_end + extra_size
        name = data[start + _HEAD.size : name_end]
        if begin > len(data) or not name:
            at = start + len(_HEAD_MARK)
            continue
        packed, size = _large_sizes(data[name_end:begin], packed, size)
        if flags & _SIZES_BEHIND and not packed:
            packed, size, checksum = _measured(marks, begin, method, left)
        packed = min(packed, len(data) - begin)
        left -= size
        at = begin + packed
        yield _Found(start, version, flags, method, (stamp[0], stamp[1]), checksum, packed, min(size, _ELSEWHERE), name)


def _large_sizes(extra: bytes, packed: int, size: int) -> tuple[int, int]:
    field = _extra_field(extra, _SIZES_FIELD)
    if _ELSEWHERE in (packed, size) and len(field) >= 16:  # noqa: PLR2004 - two sizes of eight bytes
        size, packed = struct.unpack_from("<QQ", field)
    return packed, size


def _extra_field(extra: bytes, wanted: int) -> bytes:
    at = 0
    while at + 4 <= len(extra):
        id_, length = struct.unpack_from("<HH", extra, at)
        if id_ == wanted:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


class _Marks:
    """The next places of marks in a file, which is searched once for each mark."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._next: dict[bytes, int] = {}

    def after(self, mark: bytes, begin: int) -> int:
        """Return the first place from `begin` on, which never gets smaller; the end if there is none."""
        if self._next.get(mark, -1) < begin:
            found = self.data.find(mark, begin)
            self._next[mark] = found if found >= 0 else len(self.data)
        return self._next[mark]


def _measured(marks: _Marks, begin: int, method: int, max_bytes: int) -> tuple[int, int, int]:
    """Return the packed size, the size and the checksum of a member whose head states none."""
    data = marks.data
    if method != ZIP_DEFLATED:
        end = min(marks.after(_DESCRIPTOR_MARK, begin), marks.after(_HEAD_MARK, begin))
        # a truncated member must not count as whole
        return end - begin, end - begin, zlib.crc32(data[begin:end]) ^ (end == len(data))
    size, checksum = 0, 0
    inflated = Inflated(data, begin, len(data))
    for piece in inflated:
        size, checksum = size + len(piece), zlib.crc32(piece, checksum)
        if size > max_bytes:
            raise TooMuchError
    return inflated.end - begin, size, checksum ^ (not inflated.is_whole)


class Inflated:
    """The pieces that deflated data gives, up to its end or to its first damage. `end` is where it stopped."""

    def __init__(self, data: bytes, begin: int, end: int) -> None:
        self._data, self._begin, self._last = data, begin, end
        self.end = begin
        self.is_whole = False

    def __iter__(self) -> Iterator[bytes]:
        inflater, at, rest = zlib.decompressobj(-zlib.MAX_WBITS), self._begin, b""
        while not inflater.eof and (rest or at < self._last):
            if not rest:
                rest = self._data[at : min(at + _STEP_BYTES, self._last)]
                at += len(rest)
            try:
                piece = inflater.decompress(rest, _STEP_BYTES)
            except zlib.error:
                break
            rest = inflater.unconsumed_tail
            self.end = at - len(rest) - len(inflater.unused_data)
            if piece:
                yield piece
        self.is_whole = inflater.eof


def read_what_is_left(data: bytes, archive: ZipFile, info: ZipInfo, max_bytes: int) -> tuple[bytes, bool]:
    """Return the bytes of a member as far as they can be read, and whether they are whole. Raises `TooMuchError`.

    They are never more than the directory states.
    """
    stated = info.file_size
    if stated > max_bytes:
        raise TooMuchError
    head = data[info.header_offset : info.header_offset + _HEAD.size]
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or not head.startswith(_HEAD_MARK):
        return _read_by_library(archive, info, max_bytes)
    begin = info.header_offset + _HEAD.size + sum(struct.unpack("<HH", head[-4:]))
    end = min(begin + info.compress_size, len(data))
    if info.compress_type == ZIP_STORED:
        content, is_whole = data[begin : min(end, begin + stated)], True
    else:
        inflated = Inflated(data, begin, end)
        content = b"".join(_up_to(inflated, stated))[:stated]
        is_whole = inflated.is_whole
    return content, is_whole and zlib.crc32(content) == info.CRC


def _up_to(pieces: Inflated, max_bytes: int) -> Iterator[bytes]:
    """Yield pieces up to the first one that exceeds the bytes."""
    size = 0
    for piece in pieces:
        yield piece
        size += len(piece)
        if size > max_bytes:
            return


def _read_by_library(archive: ZipFile, info: ZipInfo, max_bytes: int) -> tuple[bytes, bool]:
    pieces, size = list[bytes](), 0
    try:
        with archive.open(info) as stream:
            while piece := stream.read(_STEP_BYTES):
                size += len(piece)
                if size > max_bytes:
                    raise TooMuchError
                pieces.append(piece)
    except (BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError):
        return b"".join(pieces), False
    return b"".join(pieces), True


# names


def _name_members(archive: ZipFile) -> None:
    """Give members without a flag for their name's encoding names in the likeliest one, the same for all of them."""
    unnamed = [
        info for info in archive.infolist() if not info.flag_bits & _IS_UTF8 and not info.orig_filename.isascii()
    ]
    if not unnamed:
        return
    raw = [info.orig_filename.encode("cp437", "replace") for info in unnamed]
    encoding = likely_encoding(raw)
    for info, name in zip(unnamed, raw, strict=True):
        stated = _extra_field(info.extra, _NAME_FIELD)[5:]
        info.filename = (stated or name).decode("utf-8" if stated else encoding, "replace").replace("\0", "")
        archive.NameToInfo[info.filename] = info
