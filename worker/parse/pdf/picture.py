"""Renders a page of a PDF, and locates a passage on it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pypdfium2
from numpy.typing import NDArray
from pypdfium2 import raw

from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.limits import Limits
from worker.parse.pdf.pdf import opened
from worker.sandbox.protocol import Head

#: Maximum pixels of a picture in each direction: a page is readable, and takes some hundred kilobytes.
MAX_WIDTH, MAX_HEIGHT = 800, 1130
#: Maximum pixels for a point of the page, so that a small page is not enlarged.
_MAX_SCALE = 2.0
#: Maximum lines of a passage that are searched, and maximum boxes.
MAX_LINES = 200
MAX_BOXES = 400
#: Minimum letters of a line for a search.
_LETTERS = 4
_UP = b"\2"
_RGB = 2


class _Letters(NamedTuple):
    """The letters and digits of a text in one case, with their positions."""

    text: str
    places: list[int]


def picture(ask: Head, data: bytes, _limits: Limits) -> tuple[Head, bytes]:
    """Return a page, counted from 1, as PNG, with boxes [left, top, width, height] in shares of it. Raises `FileError`.

    The boxes hold the lines of `passage` that the page has.
    """
    try:
        pdf, _ = opened(data)
        with pdf:
            if not 1 <= ask["page"] <= len(pdf):
                raise FileError(Reason.PARSE_FAILED, "The document has no such page; index it again.")
            pdf.init_forms()
            page = pdf[ask["page"] - 1]
            width, height = page.get_size()
            scale = min(_MAX_SCALE, MAX_WIDTH / max(width, 1), MAX_HEIGHT / max(height, 1))
            bitmap = page.render(scale=scale, rev_byteorder=True)
            pixels = np.ascontiguousarray(bitmap.to_numpy()[:, :, :3])
            boxes = [*_boxes(page, bitmap, ask["passage"])]
    except pypdfium2.PdfiumError as error:
        raise FileError(Reason.PARSE_FAILED, f"The page cannot be drawn ({error}); save the file again.") from error
    return {"width": bitmap.width, "height": bitmap.height, "boxes": boxes}, png(pixels)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return an array of rows of pixels of three bytes as PNG."""
    height, width, _ = pixels.shape
    rows = pixels.reshape(height, -1)
    # each row as its difference from the one above, which is mostly zero
    above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
    filtered = b"".join(_UP + row.tobytes() for row in rows - above)
    header = struct.pack(">IIBBBBB", width, height, 8, _RGB, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(filtered, 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, content) for kind, content in parts)


def _part(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _boxes(page: pypdfium2.PdfPage, bitmap: pypdfium2.PdfBitmap, passage: str) -> Iterator[list[float]]:
    text = page.get_textpage()
    shown = _letters(text.get_text_range())
    convert = bitmap.get_posconv(page)
    count = 0
    for start, end in _found(shown, passage):
        # characters are counted apart from those that PDFium adds to the text
        first, last = (raw.FPDFText_GetCharIndexFromTextIndex(text, shown.places[at]) for at in (start, end - 1))
        if first < 0 or last < first:
            continue
        for number in range(text.count_rects(first, last - first + 1)):
            if count == MAX_BOXES:
                return
            count += 1
            left, bottom, right, top = text.get_rect(number)
            (x1, y1), (x2, y2) = convert.to_bitmap(left, top), convert.to_bitmap(right, bottom)
            box = min(x1, x2), min(y1, y2), abs(x2 - x1), abs(y2 - y1)
            sizes = (bitmap.width, bitmap.height) * 2
            yield [round(value / size, 4) for value, size in zip(box, sizes, strict=True)]


def _found(shown: _Letters, passage: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of a passage's lines in the letters of a page, each after the previous one if possible."""
    after = 0
    for line in passage.splitlines()[:MAX_LINES]:
        wanted = _letters(line).text
        if len(wanted) < _LETTERS:
            continue
        start = shown.text.find(wanted, after)
        start = shown.text.find(wanted) if start < 0 else start
        if start >= 0:
            after = start + len(wanted)
            yield start, after


def _letters(text: str) -> _Letters:
    kept = [(letter, place) for place, whole in enumerate(text) for letter in whole.casefold() if letter.isalnum()]
    return _Letters("".join(letter for letter, _ in kept), [place for _, place in kept])
