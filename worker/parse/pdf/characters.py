"""The characters of a PDF page: its text, and their positions and looks."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from math import hypot, nan
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.bound import Answers, bound

#: Names of bold fonts, also those of TeX.
_BOLD = re.compile(rb"bold|black|heavy|demi|-medi(?!um)|(?:^|\+)(?:cm|sf|ec)(?:ss)?b", re.IGNORECASE)
_MAX_NAME_BYTES = 128
#: Maximum slope of an upright line.
_MAX_SLOPE = 0.01
#: Number of characters per batch of calls.
_BLOCK = 128

#: Size of a character and whether it is bold.
Look = tuple[float, bool]
#: A matrix in two parts: a character's rotation and scale, and its left end and baseline.
_MATRIX, _SCALE = Struct("16sff"), Struct("4f")
_BYTES_OF_UNIT = 2

_char_index = bound(raw.FPDFText_GetCharIndexFromTextIndex)
_text_index = bound(raw.FPDFText_GetTextIndexFromCharIndex)
_get_text = bound(raw.FPDFText_GetText)
_char_box, _matrix = bound(raw.FPDFText_GetCharBox), bound(raw.FPDFText_GetMatrix)
_font_size, _font_info = bound(raw.FPDFText_GetFontSize), bound(raw.FPDFText_GetFontInfo)
_name = attrgetter("value")


class Drawn(NamedTuple):
    """The drawing of characters: columns of looks (None for one that is not upright), left ends and baselines."""

    looks: list[Look | None]
    lefts: list[float]
    baselines: list[float]


class PageCharacters:
    """The characters of a page by their index in its text. All pages have the same buffers."""

    def __init__(self) -> None:
        self._edges = Answers(ctypes.c_double, 4, _BLOCK)
        self._matrices = Answers(ctypes.c_float, 6, _BLOCK)
        self._names = [ctypes.create_string_buffer(_MAX_NAME_BYTES) for _ in range(_BLOCK)]
        self._name_size = ctypes.c_ulong(_MAX_NAME_BYTES)
        self._flags = ctypes.byref(ctypes.c_int())
        self._text = ctypes.create_string_buffer(0)

    def open(self, layer: pypdfium2.PdfTextPage) -> str:
        """Begin a page, and return its text."""
        self._layer = layer.raw
        count = layer.count_chars()
        last = count - 1
        # the text leaves out characters of some pages only
        self._are_all_text = _text_index(self._layer, last) == last
        if not count or not self._are_all_text or _text_index(self._layer, 0):
            text: str = layer.get_text_range()
            return text
        needed = _BYTES_OF_UNIT * (count + 1)
        if needed > len(self._text):
            self._text = ctypes.create_string_buffer(2 * needed)
        # the last unit is NUL
        written = _BYTES_OF_UNIT * (_get_text(self._layer, 0, count, ctypes.byref(self._text)) - 1)
        return str(memoryview(self._text)[:written], "utf-16-le", "ignore")

    def middles(self, indexes: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the distances of character middles from the left, and from the bottom; `nan` if one has none."""
        across: list[float] = []
        down: list[float] = []
        for block in self._blocks(indexes):
            # a loop takes twice as long as `map`
            found = list(map(_char_box, repeat(self._layer), block, *self._edges.places))
            lefts, rights, bottoms, tops = self._edges.columns(len(found))
            across += [(left + right) / 2 for left, right in zip(lefts, rights, strict=True)]
            down += [(bottom + top) / 2 for bottom, top in zip(bottoms, tops, strict=True)]
            if not all(found):
                for at, is_found in enumerate(found, len(across) - len(found)):
                    if not is_found:
                        across[at] = down[at] = nan
        return across, down

    def drawn(self, indexes: Sequence[int]) -> Drawn:
        """Return the looks and places of characters."""
        drawn = Drawn([], [], [])
        for block in self._blocks(indexes):
            found, scales, lefts, baselines = self._places(block)
            drawn.looks.extend(map(_look, found, self._font_sizes(block), self._fonts(block), scales))
            drawn.lefts.extend(lefts)
            drawn.baselines.extend(baselines)
        return drawn

    def ends(self, indexes: Sequence[int]) -> Iterator[tuple[float, bool, float] | None]:
        """Yield the exact size of each character, whether it is bold, and its right end; None if it has no box."""
        for block in self._blocks(indexes):
            found = list(map(_char_box, repeat(self._layer), block, *self._edges.places))
            _, rights, _, _ = self._edges.columns(len(found))
            _, scales, _, _ = self._places(block)
            ends = zip(self._font_sizes(block), self._fonts(block), scales, rights, strict=True)
            for has_box, (font_size, font, scale, right) in zip(found, ends, strict=True):
                yield (font_size * _height(scale), _is_bold(font), right) if has_box else None

    def _blocks(self, indexes: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield the numbers of characters for PDFium, in batches of the buffers' size."""
        numbers = indexes if self._are_all_text else list(map(_char_index, repeat(self._layer), indexes))
        return (numbers[start : start + _BLOCK] for start in range(0, len(numbers), _BLOCK))

    def _places(self, block: Sequence[int]) -> tuple[list[int], Sequence[bytes], Sequence[float], Sequence[float]]:
        """Return whether characters have a matrix, and its parts."""
        found = list(map(_matrix, repeat(self._layer), block, *self._matrices.places[:1]))
        scales, lefts, baselines = zip(*_MATRIX.iter_unpack(self._matrices.written(len(found))), strict=True)
        return found, scales, lefts, baselines

    def _font_sizes(self, block: Sequence[int]) -> Iterator[float]:
        return map(_font_size, repeat(self._layer), block)

    def _fonts(self, block: Sequence[int]) -> list[bytes]:
        """Return the names of fonts; "" if one is too long."""
        sizes = list(
            map(_font_info, repeat(self._layer), block, self._names, repeat(self._name_size), repeat(self._flags))
        )
        names = list(map(_name, self._names[: len(sizes)]))
        if min(sizes) > 0 and max(sizes) <= _MAX_NAME_BYTES:
            return names
        # for a long name, the place still has the previous one
        return [name if 0 < size <= _MAX_NAME_BYTES else b"" for name, size in zip(names, sizes, strict=True)]


@lru_cache(maxsize=1000)
def _look(is_found: int, font_size: float, font: bytes, scale: bytes) -> Look | None:
    """Return the size to a tenth of a point, and whether it is bold. Most lines of a document look the same."""
    across, slope, _, _ = _SCALE.unpack(scale)
    if not is_found or across <= 0 or abs(slope) > _MAX_SLOPE * across:
        return None
    return round(font_size * _height(scale), 1), _is_bold(font)


def _height(scale: bytes) -> float:
    """Return the vertical scale of a matrix."""
    _, _, sideways, up = _SCALE.unpack(scale)
    return hypot(sideways, up)


@lru_cache(maxsize=1000)
def _is_bold(font: bytes) -> bool:
    return bool(_BOLD.search(font))
