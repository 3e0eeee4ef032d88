"""Gives a truncated PDF a new end, so that PDFium reads the pages before the cut."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

_OBJECT = re.compile(rb"(?<!\d)(\d{1,9})[ \t\r\n]{1,4}\d{1,5}[ \t\r\n]{1,4}obj\b")
#: Bytes of an object that contain its type, and bytes on either side of the type of an object stream.
_HEAD_BYTES, _DICTIONARY_BYTES = 4096, 400
_MAX_OBJECTS = 1_000_000
_PAGE = re.compile(rb"/Type\s{0,9}/Page(?![A-Za-z])")
_CATALOG = re.compile(rb"/Type\s{0,9}/Catalog\b")
_PAGES = re.compile(rb"/Pages\s{1,9}(\d{1,9})\s")
_PACKED = re.compile(rb"/Type\s{0,9}/ObjStm\b")
_NUMBER, _FIRST = re.compile(rb"/N\s{1,9}(\d{1,7})"), re.compile(rb"/First\s{1,9}(\d{1,9})")
_STREAM = re.compile(rb"stream\r?\n")
#: Maximum total bytes of inflated object streams.
_MAX_INFLATED_BYTES = 64 << 20


def rebuilt(data: bytes) -> bytes | None:
    """Return the file with a new end; None if no page is found, or its objects are encrypted."""
    if b"/Encrypt" in data:
        return None
    data, end = _without_end(data)
    unpacked = b"".join(_unpacked(data))
    whole = b"%s%s\n%s" % (data, end, unpacked)
    heads = dict(_heads(whole))
    pages = [number for number, head in heads.items() if _PAGE.search(head)]
    if not pages:
        return None
    catalog = next((number for number, head in heads.items() if _has_pages(head, heads)), None)
    if catalog is None:
        top = max(heads) + 1
        kids = b" ".join(b"%d 0 R" % number for number in pages)
        made = b"%d 0 obj\n<</Type/Pages/Count %d/Kids[%s]>>\nendobj\n" % (top, len(pages), kids)
        catalog = top + 1
        whole += b"%s%d 0 obj\n<</Type/Catalog/Pages %d 0 R>>\nendobj\n" % (made, catalog, top)
    return b"%strailer\n<</Root %d 0 R>>\n%%%%EOF\n" % (whole, catalog)


def _without_end(data: bytes) -> tuple[bytes, bytes]:
    """Return the file without the remains of its list of objects, and with the end of the truncated object."""
    last = data.rfind(b"endobj") + len(b"endobj")
    rest = data[last:].lstrip()
    if not rest or rest.startswith((b"xref", b"trailer", b"startxref"[: len(rest)])) or b"/XRef" in rest[:_HEAD_BYTES]:
        return data[:last], b""
    return data, b"\nendstream\nendobj"


def _has_pages(head: bytes, heads: dict[int, bytes]) -> bool:
    """Return whether an object is the catalog, and the list of pages that it names is there."""
    pages = _PAGES.search(head) if _CATALOG.search(head) else None
    return pages is not None and b"/Kids" in heads.get(int(pages[1]), b"")


def _heads(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return number and beginning of each object. The last object with a number counts."""
    number, start = -1, 0
    for count, found in enumerate(_OBJECT.finditer(data)):
        if number >= 0:
            yield number, data[start : min(found.start(), start + _HEAD_BYTES)]
        if count >= _MAX_OBJECTS:
            return
        number, start = int(found[1]), found.end()
    if number >= 0:
        yield number, data[start : start + _HEAD_BYTES]


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Yield the objects in object streams, each separately."""
    left, at = _MAX_INFLATED_BYTES, 0
    while found := _PACKED.search(data, at):
        at = found.end()
        # the dictionary around the type
        start = data.rfind(b"obj", max(0, found.start() - _DICTIONARY_BYTES), found.start())
        stream = _STREAM.search(data, at, at + _DICTIONARY_BYTES)
        head = data[start : stream.start()] if stream and start >= 0 else b""
        number, first = _NUMBER.search(head), _FIRST.search(head)
        if stream is None or number is None or first is None or b"/FlateDecode" not in head:
            continue
        end = data.find(b"endstream", stream.end())
        at = end if end >= 0 else len(data)
        text = _inflated(data[stream.end() : at], left)
        left -= len(text)
        yield from _objects(text, int(number[1]), int(first[1]))


def _inflated(packed: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, max(1, most))
    except zlib.error:
        return b""


def _objects(text: bytes, count: int, first: int) -> Iterator[bytes]:
    numbers = [int(part) for part in text[:first].split()[: 2 * count] if part.isdigit() and len(part) < 10]  # noqa: PLR2004
    places = list(zip(numbers[::2], numbers[1::2], strict=False))
    ends = [*(begin for _, begin in places[1:]), len(text) - first]
    for (number, begin), end in zip(places, ends, strict=False):
        if 0 <= begin < end <= len(text) - first:
            yield b"%d 0 obj\n%s\nendobj\n" % (number, text[first + begin : first + end])
