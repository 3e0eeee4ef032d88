"""The characters of a PDF page: where and how they are drawn."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from math import hypot
from struct import Struct

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.bound import Box, bound, pointers

#: Names of bold fonts, also those of TeX.
_BOLD = re.compile(rb"bold|black|heavy|demi|-medi(?!um)|(?:^|\+)(?:cm|sf|ec)(?:ss)?b", re.IGNORECASE)
_MAX_NAME_BYTES = 128
#: Maximum slope of an upright line.
_MAX_SLOPE = 0.01
#: Characters whose boxes are asked for at once.
_BLOCK = 16
_EDGES, _NUMBERS = Struct("4d"), Struct("6f")

#: Size of an upright character and whether it is bold, its baseline and its left end.
Drawn = tuple[tuple[float, bool], float, float]

_char_index = bound(raw.FPDFText_GetCharIndexFromTextIndex)
_char_box, _matrix = bound(raw.FPDFText_GetCharBox), bound(raw.FPDFText_GetMatrix)
_font_size, _font_info = bound(raw.FPDFText_GetFontSize), bound(raw.FPDFText_GetFontInfo)


class PageCharacters:
    """The characters of a page by their index in its text. All pages have the same buffers."""

    def __init__(self) -> None:
        self._edges = (ctypes.c_double * (4 * _BLOCK))()
        to_edges = pointers(self._edges)
        self._to_edges = [to_edges[edge::4] for edge in range(4)]
        self._matrix = raw.FS_MATRIX()
        self._to_matrix = ctypes.byref(self._matrix)
        self._name, self._name_size = ctypes.create_string_buffer(_MAX_NAME_BYTES), ctypes.c_ulong(_MAX_NAME_BYTES)
        self._flags = ctypes.byref(ctypes.c_int())

    def open(self, layer: pypdfium2.PdfTextpage) -> None:
        """Begin a page."""
        self._layer = layer.raw
        last = layer.count_chars() - 1
        # the text leaves out characters of some pages only
        self._are_all_text = raw.FPDFText_GetTextIndexFromCharIndex(layer, last) == last

    def boxes(self, indexes: Sequence[int]) -> Iterator[Box | None]:
        """The places of characters."""
        layer = repeat(self._layer)
        at = indexes if self._are_all_text else list(map(_char_index, layer, indexes))
        for start in range(0, len(at), _BLOCK):
            # a loop takes twice as long as `map`
            found = list(map(_char_box, layer, at[start : start + _BLOCK], *self._to_edges))
            for is_found, (left, right, bottom, top) in zip(found, _EDGES.iter_unpack(self._edges), strict=False):
                yield (left, bottom, right, top) if is_found else None

    def drawn(self, index: int) -> Drawn | None:
        """How a character is drawn; None if it is not upright."""
        layer = self._layer
        at = index if self._are_all_text else _char_index(layer, index)
        if at < 0 or not _matrix(layer, at, self._to_matrix):
            return None
        across, slope, sideways, up, left, baseline = _NUMBERS.unpack(self._matrix)
        if across <= 0 or abs(slope) > _MAX_SLOPE * across:
            return None
        return _look(_font_size(layer, at), sideways, up, self._font(at)), baseline, left

    def end(self, index: int) -> tuple[float, bool, float] | None:
        """Size of a character, whether it is bold, and its right end."""
        box = next(self.boxes((index,)))
        if box is None:
            return None
        layer = self._layer
        at = index if self._are_all_text else _char_index(layer, index)
        _matrix(layer, at, self._to_matrix)
        size = _font_size(layer, at) * hypot(self._matrix.c, self._matrix.d)
        return size, _is_bold(self._font(at)), box[2]

    def _font(self, at: int) -> bytes:
        """The name of a character's font; empty if it is long."""
        size = _font_info(self._layer, at, self._name, self._name_size, self._flags)
        # otherwise the buffer still has the name that was read before
        return self._name.value if 0 < size <= _MAX_NAME_BYTES else b""


@lru_cache(maxsize=1000)
def _look(font_size: float, sideways: float, up: float, font: bytes) -> tuple[float, bool]:
    """The size to a tenth of a point, and whether it is bold. Most lines of a document look the same."""
    return round(font_size * hypot(sideways, up), 1), _is_bold(font)


@lru_cache(maxsize=1000)
def _is_bold(font: bytes) -> bool:
    return bool(_BOLD.search(font))
