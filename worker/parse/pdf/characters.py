"""The characters of a PDF page: where and how they are drawn."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from math import hypot

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.bound import Answers, bound

#: Names of bold fonts, also those of TeX.
_BOLD = re.compile(rb"bold|black|heavy|demi|-medi(?!um)|(?:^|\+)(?:cm|sf|ec)(?:ss)?b", re.IGNORECASE)
_MAX_NAME_BYTES = 128
#: Maximum slope of an upright line.
_MAX_SLOPE = 0.01
#: Characters whose boxes are asked for at once.
_BLOCK = 128

Point = tuple[float, float]
#: Size of an upright character and whether it is bold, its baseline and its left end.
Drawn = tuple[tuple[float, bool], float, float]

_char_index = bound(raw.FPDFText_GetCharIndexFromTextIndex)
_char_box, _matrix = bound(raw.FPDFText_GetCharBox), bound(raw.FPDFText_GetMatrix)
_font_size, _font_info = bound(raw.FPDFText_GetFontSize), bound(raw.FPDFText_GetFontInfo)


class PageCharacters:
    """The characters of a page by their index in its text. All pages have the same buffers."""

    def __init__(self) -> None:
        self._edges = Answers(ctypes.c_double, 4, _BLOCK)
        self._to_first_edges = [places[0] for places in self._edges.places]
        self._matrices = Answers(ctypes.c_float, 6, _BLOCK)
        self._names = [ctypes.create_string_buffer(_MAX_NAME_BYTES) for _ in range(_BLOCK)]
        self._name_size = ctypes.c_ulong(_MAX_NAME_BYTES)
        self._flags = ctypes.byref(ctypes.c_int())

    def open(self, layer: pypdfium2.PdfTextpage) -> None:
        """Begin a page."""
        self._layer = layer.raw
        last = layer.count_chars() - 1
        # the text leaves out characters of some pages only
        self._are_all_text = raw.FPDFText_GetTextIndexFromCharIndex(layer, last) == last

    def middles(self, indexes: Sequence[int]) -> list[Point | None]:
        """The middles of characters."""
        middles: list[Point | None] = []
        layer = repeat(self._layer)
        at = self._numbers(indexes)
        for start in range(0, len(at), _BLOCK):
            # a loop takes twice as long as `map`
            found = list(map(_char_box, layer, at[start : start + _BLOCK], *self._edges.places))
            block = [
                ((left + right) / 2, (bottom + top) / 2) for left, right, bottom, top in self._edges.first(len(found))
            ]
            middles += (
                block if all(found) else [middle if ok else None for middle, ok in zip(block, found, strict=True)]
            )
        return middles

    def drawn(self, indexes: Sequence[int]) -> Iterator[Drawn | None]:
        """How characters are drawn; None for one that is not upright."""
        layer, name_size, flags = repeat(self._layer), repeat(self._name_size), repeat(self._flags)
        at = self._numbers(indexes)
        for start in range(0, len(at), _BLOCK):
            block = at[start : start + _BLOCK]
            found = map(_matrix, layer, block, *self._matrices.places[:1])
            name_sizes = map(_font_info, layer, block, self._names, name_size, flags)
            fonts = list(zip(found, map(_font_size, layer, block), name_sizes, self._names, strict=False))
            for (is_found, font_size, size, name), matrix in zip(fonts, self._matrices.first(len(block)), strict=True):
                across, slope, sideways, up, left, baseline = matrix
                if not is_found or across <= 0 or abs(slope) > _MAX_SLOPE * across:
                    yield None
                else:
                    # of a long name, the place still has the one before
                    font = name.value if 0 < size <= _MAX_NAME_BYTES else b""
                    yield _look(font_size, sideways, up, font), baseline, left

    def end(self, index: int) -> tuple[float, bool, float] | None:
        """Size of a character, whether it is bold, and its right end."""
        layer, (at,) = self._layer, self._numbers((index,))
        if not _char_box(layer, at, *self._to_first_edges):
            return None
        _, right, _, _ = next(self._edges.first(1))
        _matrix(layer, at, self._matrices.places[0][0])
        _, _, sideways, up, _, _ = next(self._matrices.first(1))
        size = _font_info(layer, at, self._names[0], self._name_size, self._flags)
        font = self._names[0].value if 0 < size <= _MAX_NAME_BYTES else b""
        return _font_size(layer, at) * hypot(sideways, up), _is_bold(font), right

    def _numbers(self, indexes: Sequence[int]) -> Sequence[int]:
        """The numbers of characters that PDFium asks for."""
        return indexes if self._are_all_text else list(map(_char_index, repeat(self._layer), indexes))


@lru_cache(maxsize=1000)
def _look(font_size: float, sideways: float, up: float, font: bytes) -> tuple[float, bool]:
    """The size to a tenth of a point, and whether it is bold. Most lines of a document look the same."""
    return round(font_size * hypot(sideways, up), 1), _is_bold(font)


@lru_cache(maxsize=1000)
def _is_bold(font: bytes) -> bool:
    return bool(_BOLD.search(font))
