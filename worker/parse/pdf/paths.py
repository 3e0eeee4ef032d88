"""The drawn paths of a PDF page: their bounds and their figures with straight sides."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import repeat
from struct import Struct

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.bound import Box, bound, pointers

#: Maximum segments of a path. More are a drawing.
_MAX_SEGMENTS = 2_000
_MATRIX = Struct("6f")

_object, _type = bound(raw.FPDFPage_GetObject), bound(raw.FPDFPageObj_GetType)
_bounds, _matrix = bound(raw.FPDFPageObj_GetBounds), bound(raw.FPDFPageObj_GetMatrix)
_draw_mode = bound(raw.FPDFPath_GetDrawMode)
_segment_count, _segment = bound(raw.FPDFPath_CountSegments), bound(raw.FPDFPath_GetPathSegment)
_kind, _point = bound(raw.FPDFPathSegment_GetType), bound(raw.FPDFPathSegment_GetPoint)
_closes = bound(raw.FPDFPathSegment_GetClose)

Point = tuple[float, float]


class PagePaths:
    """Asks PDFium about paths, with the same buffers for all pages."""

    def __init__(self) -> None:
        self._edges, self._place, self._modes = (ctypes.c_float * 4)(), (ctypes.c_float * 2)(), (ctypes.c_int * 2)()
        self._to_edges, self._to_place, self._to_modes = map(pointers, (self._edges, self._place, self._modes))
        self._matrix = raw.FS_MATRIX()
        self._to_matrix = ctypes.byref(self._matrix)

    def of(self, page: pypdfium2.PdfPage, count: int) -> Iterator[tuple[raw.FPDF_PAGEOBJECT, Box]]:
        """The paths among the first objects of a page, and their bounds."""
        edges, to_edges, kind = self._edges, self._to_edges, raw.FPDF_PAGEOBJ_PATH
        for path in map(_object, repeat(page.raw), range(count)):
            if _type(path) == kind and _bounds(path, *to_edges):
                left, bottom, right, top = edges
                yield path, (left, bottom, right, top)

    def is_stroked(self, path: raw.FPDF_PAGEOBJECT) -> bool:
        """Whether the sides are drawn."""
        _draw_mode(path, *self._to_modes)
        return bool(self._modes[1])

    def figures(self, path: raw.FPDF_PAGEOBJECT) -> Iterator[list[Point]]:
        """Corners of each figure, up to the first with a curve."""
        count = _segment_count(path)
        if count > _MAX_SEGMENTS or not _matrix(path, self._to_matrix):
            return
        a, b, c, d, e, f = _MATRIX.unpack(self._matrix)
        place, (to_x, to_y) = self._place, self._to_place
        points: list[Point] = []
        for segment in map(_segment, repeat(path), range(count)):
            kind = _kind(segment)
            if kind == raw.FPDF_SEGMENT_BEZIERTO:
                return
            if kind == raw.FPDF_SEGMENT_MOVETO and points:
                yield points
                points = []
            _point(segment, to_x, to_y)
            x, y = place
            points.append((a * x + c * y + e, b * x + d * y + f))
            if _closes(segment):
                points.append(points[0])
        if points:
            yield points

    def is_one_figure(self, path: raw.FPDF_PAGEOBJECT) -> bool:
        """Whether `figures` gives at most one, that is not turned. Its bounds are those of the path."""
        if not _matrix(path, self._to_matrix) or self._matrix.b or self._matrix.c:
            return False
        kinds = map(_kind, map(_segment, repeat(path), range(1, min(_segment_count(path), _MAX_SEGMENTS))))
        other = next((kind for kind in kinds if kind != raw.FPDF_SEGMENT_LINETO), None)
        # behind a curve no figure is taken
        return bool(other != raw.FPDF_SEGMENT_MOVETO)
