"""Writes compound files, the container of old office programs ([MS-CFB]), and what their streams hold."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import count, pairwise

_SECTOR, _SMALL, _CUTOFF = 512, 64, 4096
_FREE, _END, _TABLE = 0xFFFF_FFFF, 0xFFFF_FFFE, 0xFFFF_FFFD
_STORAGE, _STREAM, _ROOT = 1, 2, 5


def compound(streams: dict[str, bytes]) -> bytes:
    """A compound file with streams at these paths."""
    entries: list[list[object]] = [["Root Entry", _ROOT, _FREE, _FREE, _END, 0]]
    children: dict[str, list[int]] = {"": []}
    sectors: list[bytes] = []
    table: list[int] = []
    small = b""
    small_table: list[int] = []
    for path, data in streams.items():
        folder, _, name = path.rpartition("/")
        if folder not in children:
            children[""].append(len(entries))
            children[folder] = []
            entries.append([folder, _STORAGE, _FREE, _FREE, 0, 0])
        children[folder].append(len(entries))
        if len(data) < _CUTOFF:
            start = _chain(small_table, len(data), _SMALL)
            small += _padded(data, _SMALL)
        else:
            start = _chain(table, len(data), _SECTOR)
            sectors.append(_padded(data, _SECTOR))
        entries.append([name, _STREAM, _FREE, _FREE, start, len(data)])
    for folder, inner in children.items():
        holder = next(entry for entry in entries if entry[0] == (folder or "Root Entry"))
        inner.sort(key=lambda at: (len(str(entries[at][0])), str(entries[at][0]).upper()))
        holder[3] = inner[0] if inner else _FREE
        for first, second in pairwise(inner):
            entries[first][2] = second
    if small:
        entries[0][4:] = _chain(table, len(small), _SECTOR), len(small)
        sectors.append(_padded(small, _SECTOR))
    packed_table = struct.pack(f"<{len(small_table)}I", *small_table)
    small_start = _chain(table, len(packed_table), _SECTOR)
    sectors.append(_padded(packed_table, _SECTOR, b"\xff"))
    directory = b"".join(_entry(*entry) for entry in entries)  # type: ignore[arg-type]
    directory_start = _chain(table, len(directory), _SECTOR)
    sectors.append(_padded(directory, _SECTOR))
    table_start, count = len(table), 1
    while (len(table) + count) * 4 > count * _SECTOR:
        count += 1
    table += [_TABLE] * count
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack(
        f"<HHHHH6x{9 + count}I",
        0x3E,
        3,
        0xFFFE,
        9,
        6,
        0,
        count,
        directory_start,
        0,
        _CUTOFF,
        small_start,
        -(-len(packed_table) // _SECTOR),
        _END,
        0,
        *range(table_start, table_start + count),
    )
    head = head.ljust(_SECTOR, b"\xff")
    return head + b"".join(sectors) + _padded(struct.pack(f"<{len(table)}I", *table), _SECTOR, b"\xff")


def _chain(table: list[int], size: int, unit: int) -> int:
    """Add the sectors of a stream to a table; return the first."""
    count = -(-size // unit)
    if not count:
        return _END
    start = len(table)
    table += [*range(start + 1, start + count), _END]
    return start


def _padded(data: bytes, unit: int, filler: bytes = b"\0") -> bytes:
    return data + filler * (-len(data) % unit)


def _entry(name: str, kind: int, sibling: int, child: int, start: int, size: int) -> bytes:
    written = name.encode("utf-16-le") + b"\0\0"
    return struct.pack("<64sHBBIII36xIQ", written, len(written), kind, 1, _FREE, sibling, child, start, size)


def workbook(name: str, rows: Sequence[Sequence[str | float]], formats: Sequence[str] = ()) -> bytes:
    """A stream with one sheet, as Excel 97 writes it ([MS-XLS]). The numbers have these formats in turn."""

    def record(kind: int, data: bytes = b"") -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    def begin(kind: int) -> bytes:
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 0, 0, 6))

    title = struct.pack("<BB", len(name), 1) + name.encode("utf-16-le")
    looks = b"".join(
        record(0x41E, struct.pack("<HHB", number, len(code), 1) + code.encode("utf-16-le"))
        + record(0xE0, struct.pack("<HH", 0, number).ljust(20, b"\0"))
        for number, code in enumerate(formats, 164)
    )
    sheet_at = len(begin(5)) + len(looks) + 4 + 6 + len(title) + 4
    cells, looked = b"", count()
    for down, row in enumerate(rows):
        for across, value in enumerate(row):
            place = struct.pack("<HHH", down, across, 0)
            if isinstance(value, str):
                cells += record(0x204, place + struct.pack("<HB", len(value), 1) + value.encode("utf-16-le"))
            else:
                look = struct.pack("<H", next(looked) % len(formats) if formats else 0)
                cells += record(0x203, place[:4] + look + struct.pack("<d", value))
    sheets = record(0x85, struct.pack("<IH", sheet_at, 0) + title)
    return begin(5) + looks + sheets + record(0xA) + begin(0x10) + cells + record(0xA)


def outlook(
    properties: dict[str, str | bytes], attachments: tuple[str, ...] = (), contents: tuple[bytes, ...] = ()
) -> bytes:
    """A message with properties by their number, and with attachments of these names and contents ([MS-OXMSG])."""
    streams = {"__properties_version1.0": bytes(32)}
    for number, value in properties.items():
        streams |= _property(number, value)
    for at, name in enumerate(attachments):
        streams |= {f"__attach_version1.0_#{at:08}/{key}": data for key, data in _property("3707", name).items()}
    for at, content in enumerate(contents):
        streams[f"__attach_version1.0_#{at:08}/__substg1.0_37010102"] = content
    return compound(streams)


def _property(number: str, value: str | bytes) -> dict[str, bytes]:
    if isinstance(value, str):
        return {f"__substg1.0_{number}001F": value.encode("utf-16-le")}
    return {f"__substg1.0_{number}0102": value}
