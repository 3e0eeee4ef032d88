"""How the lines of a PDF page are drawn, by which headings are found.

Each line costs some microseconds, so only lines that may be headings are examined up to their ends.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache
from math import hypot

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.text_lines import Lines, Look

#: Maximum characters of a line that may be a heading.
MAX_SHORT_CHARS = 120
#: Maximum distance of the baselines of lines that follow each other, as a multiple of their size.
MAX_PITCH = 1.7
#: A page with fewer characters may have titles only, so that most of them tell nothing about the others.
_MIN_USUAL_CHARS = 500
_LETTER = re.compile(r"[^\W_]")
#: Names of bold fonts, also those of TeX.
_BOLD = re.compile(rb"bold|black|heavy|demi|-medi(?!um)|(?:^|\+)(?:cm|sf|ec)(?:ss)?b", re.IGNORECASE)
_MAX_NAME_BYTES = 100
#: Maximum slope of an upright line, and maximum difference of sizes that are the same.
_MAX_SLOPE, _SAME_SIZE = 0.01, 0.03
#: Size, whether it is bold, baseline and left end of a character.
_Drawn = tuple[float, bool, float, float]


def add_looks(layer: pypdfium2.PdfTextpage, lines: Lines) -> None:
    """Add how the lines are drawn, as far as they are upright. Rows of tables have no look."""
    reader = _Reader(layer)
    drawn = list(map(reader.first, lines.texts, lines.starts))
    _count(drawn, lines)
    usual = most(lines.sizes)[0] if sum(lines.sizes.values()) >= _MIN_USUAL_CHARS else 0.0
    for number, line in enumerate(drawn):
        if line and (line[1] or line[0] > usual) and len(lines.texts[number]) <= MAX_SHORT_CHARS:
            width = reader.width(lines.texts[number], lines.starts[number], line)
            if width:
                above = _nearest(drawn, range(number - 1, -1, -1))
                below = _nearest(drawn, range(number + 1, len(drawn)))
                size, is_bold, baseline, _ = line
                lines.looks[number] = Look(
                    size,
                    is_bold,
                    baseline,
                    width,
                    None if above is None else above - baseline,
                    None if below is None else baseline - below,
                )


def _count(drawn: Sequence[_Drawn | None], lines: Lines) -> None:
    """Add the sizes of the lines, and their distances from the line above."""
    sizes, pitches, upper = lines.sizes, lines.pitches, 0.0
    for text, line in zip(lines.texts, drawn, strict=True):
        if line is None:
            upper = 0.0
            continue
        size, _, baseline, _ = line
        look = line[:2]
        sizes[look] = sizes.get(look, 0) + len(text)
        if 0 < upper - baseline <= MAX_PITCH * size:
            pitch = round(upper - baseline, 1)
            pitches[pitch] = pitches.get(pitch, 0) + 1
        upper = baseline


def most(sizes: dict[tuple[float, bool], int]) -> tuple[float, bool]:
    """The size that most characters have, and whether most of them are bold."""
    total: dict[float, int] = {}
    for (size, _), count in sizes.items():
        total[size] = total.get(size, 0) + count
    size = max(total, key=total.__getitem__)
    return size, sizes.get((size, True), 0) > sizes.get((size, False), 0)


def _nearest(drawn: Sequence[_Drawn | None], numbers: range) -> float | None:
    """The baseline of the first of these lines that is drawn."""
    return next((line[2] for number in numbers if (line := drawn[number])), None)


class _Reader:
    """Asks PDFium about the characters of a page, with the same buffers for all of them."""

    def __init__(self, layer: pypdfium2.PdfTextpage) -> None:
        self._layer = layer.raw
        self._matrix = raw.FS_MATRIX()
        self._name, self._flags = ctypes.create_string_buffer(_MAX_NAME_BYTES), ctypes.c_int()
        self._box = tuple(ctypes.c_double() for _ in range(4))

    def first(self, text: str, start: int) -> _Drawn | None:
        """How the first letter of a line is drawn; None if it has none, or is not upright."""
        if start < 0:
            return None
        at = start
        # most lines begin with a letter, and the pattern takes longer
        if not text[:1].isalnum():
            letter = _LETTER.search(text)
            if letter is None:
                return None
            at += letter.start()
        layer, matrix = self._layer, self._matrix
        at = raw.FPDFText_GetCharIndexFromTextIndex(layer, at)
        if at < 0 or not raw.FPDFText_GetMatrix(layer, at, matrix):
            return None
        across = matrix.a
        if across <= 0 or abs(matrix.b) > _MAX_SLOPE * across:
            return None
        size = raw.FPDFText_GetFontSize(layer, at) * hypot(matrix.c, matrix.d)
        return round(size, 1), self._is_bold(at), matrix.f, matrix.e

    def width(self, text: str, start: int, first: _Drawn) -> float:
        """The width of a line; 0 if its last letter does not look like the first."""
        layer, matrix = self._layer, self._matrix
        last = next(at for at in range(len(text) - 1, -1, -1) if _LETTER.match(text, at))
        at = raw.FPDFText_GetCharIndexFromTextIndex(layer, start + last)
        left, right, bottom, top = self._box
        if at < 0 or not raw.FPDFText_GetCharBox(layer, at, left, right, bottom, top):
            return 0.0
        raw.FPDFText_GetMatrix(layer, at, matrix)
        size = raw.FPDFText_GetFontSize(layer, at) * hypot(matrix.c, matrix.d)
        is_same = abs(size - first[0]) <= _SAME_SIZE * first[0] and self._is_bold(at) == first[1]
        return max(0.0, right.value - first[3]) if is_same else 0.0

    def _is_bold(self, at: int) -> bool:
        raw.FPDFText_GetFontInfo(self._layer, at, self._name, _MAX_NAME_BYTES, self._flags)
        return _is_bold(self._name.value)


@lru_cache(maxsize=1000)
def _is_bold(name: bytes) -> bool:
    return bool(_BOLD.search(name))
