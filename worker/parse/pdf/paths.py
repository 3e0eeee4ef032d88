"""The drawn paths of a PDF page: their bounds and their figures with straight sides."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, repeat
from typing import Any

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.bound import Answers, Box, Handles, bound

#: Objects that are asked about at once.
_BLOCK = 128
#: Maximum segments of a path. More are a drawing.
_MAX_SEGMENTS = 2_000
_SEGMENTS_OF_LINE = 2
#: Widths of the pen by which the bounds of a line exceed its own: PDFium adds up to the root of two at each end.
_MAX_PEN_WIDTHS = 3

_object, _type = bound(raw.FPDFPage_GetObject, ctypes.c_void_p), bound(raw.FPDFPageObj_GetType)
_bounds, _matrix = bound(raw.FPDFPageObj_GetBounds), bound(raw.FPDFPageObj_GetMatrix)
_draw_mode, _stroke_width = bound(raw.FPDFPath_GetDrawMode), bound(raw.FPDFPageObj_GetStrokeWidth)
_segment_count, _segment = bound(raw.FPDFPath_CountSegments), bound(raw.FPDFPath_GetPathSegment, ctypes.c_void_p)
_kind, _point = bound(raw.FPDFPathSegment_GetType), bound(raw.FPDFPathSegment_GetPoint)
_closes = bound(raw.FPDFPathSegment_GetClose)

Point = tuple[float, float]
#: A path of the block that was asked for last.
Path = Any


class PagePaths:
    """Asks PDFium about paths. To ask about each by itself takes several times as long."""

    def __init__(self) -> None:
        self._objects, self._segments = Handles(_BLOCK), Handles(_MAX_SEGMENTS)
        self._edges, self._matrices = Answers(ctypes.c_float, 4, _BLOCK), Answers(ctypes.c_float, 6, _BLOCK)
        self._widths, self._modes = Answers(ctypes.c_float, 1, _BLOCK), Answers(ctypes.c_int, 2, _BLOCK)
        self._points = Answers(ctypes.c_float, 2, _MAX_SEGMENTS)

    def blocks(self, page: pypdfium2.PdfPage, count: int) -> Iterator[Iterable[tuple[Path, Box]]]:
        """The paths among the first objects of a page, and their bounds."""
        for start in range(0, count, _BLOCK):
            numbers = range(start, min(start + _BLOCK, count))
            objects = self._objects.hold(map(_object, repeat(page.raw), numbers))
            paths = list(compress(objects, map(raw.FPDF_PAGEOBJ_PATH.__eq__, map(_type, objects))))
            if paths:
                found = list(map(_bounds, paths, *self._edges.places))
                yield compress(zip(paths, self._edges.first(len(paths)), strict=True), found)

    def figures(self, paths: Sequence[tuple[Path, float]], thickness: float) -> Iterator[tuple[list[Point], bool]]:
        """Corners of the figures in paths of one block, and whether their sides are drawn.

        Paths are given with the smaller side of their bounds. Two kinds of path have no figure. One is a line whose own
        bounds have a smaller side above `thickness`. The other is not drawn, and its only figure fills its bounds.
        """
        counts = list(map(_segment_count, [path for path, _ in paths]))
        lines = [each for each, count in zip(paths, counts, strict=True) if count == _SEGMENTS_OF_LINE]
        longer = [
            (path, count)
            for (path, _), count in zip(paths, counts, strict=True)
            if _SEGMENTS_OF_LINE < count <= _MAX_SEGMENTS
        ]
        # a curve after the first point leaves no figure
        second = self._segments.hold(map(_segment, [path for path, _ in longer], repeat(1)))
        are_straight = map(raw.FPDF_SEGMENT_BEZIERTO.__ne__, list(map(_kind, second)))
        taken = [(path, _SEGMENTS_OF_LINE) for path in self._thin(lines, thickness)]
        taken += compress(longer, are_straight)
        for batch in _batches(taken):
            yield from self._of_batch(batch)

    def _thin(self, lines: Sequence[tuple[Path, float]], thickness: float) -> Iterator[Path]:
        """The lines that may be as thin, by their bounds and their pens."""
        paths = [path for path, _ in lines]
        found = list(map(_stroke_width, paths, *self._widths.places))
        list(map(_matrix, paths, *self._matrices.places[:1]))
        widths, matrices = self._widths.first(len(paths)), self._matrices.first(len(paths))
        for (path, side), is_found, (width,), (a, b, c, d, _, _) in zip(lines, found, widths, matrices, strict=True):
            if not is_found or b or c or side <= thickness + _MAX_PEN_WIDTHS * width * max(abs(a), abs(d)) + 1:
                yield path

    def _of_batch(self, batch: Sequence[tuple[Path, int]]) -> Iterator[tuple[list[Point], bool]]:
        paths, counts = [path for path, _ in batch], [count for _, count in batch]
        list(map(_draw_mode, paths, *self._modes.places))
        found = list(map(_matrix, paths, *self._matrices.places[:1]))
        segments_of = chain.from_iterable(map(repeat, paths, counts))
        segments = self._segments.hold(map(_segment, segments_of, chain.from_iterable(map(range, counts))))
        kinds = list(map(_kind, segments))
        shapes: list[tuple[slice, Sequence[float], int]] = []
        end = 0
        for count, is_found, matrix, (_, stroke) in zip(
            counts, found, self._matrices.first(len(batch)), self._modes.first(len(batch)), strict=True
        ):
            start, end = end, end + count
            if is_found and (stroke or not _is_one_figure(kinds[start:end], matrix)):
                shapes.append((slice(start, end), matrix, stroke))
        if not shapes:
            return
        closes = list(map(_closes, segments))
        list(map(_point, segments, *self._points.places))
        places = list(self._points.first(len(segments)))
        for part, (a, b, c, d, e, f), stroke in shapes:
            points = [(a * x + c * y + e, b * x + d * y + f) for x, y in places[part]]
            for figure in _figures(kinds[part], points, closes[part]):
                yield figure, bool(stroke)


def _batches(paths: Iterable[tuple[Path, int]]) -> Iterator[Sequence[tuple[Path, int]]]:
    """Paths, with the numbers of their segments, that together have no more segments than one may have."""
    batch: list[tuple[Path, int]] = []
    size = 0
    for path, count in paths:
        if size + count > _MAX_SEGMENTS:
            yield batch
            batch, size = [], 0
        batch.append((path, count))
        size += count
    if batch:
        yield batch


def _is_one_figure(kinds: Sequence[int], matrix: Sequence[float]) -> bool:
    """Whether there is at most one figure, that is not turned. Its bounds are those of the path."""
    if matrix[1] or matrix[2]:
        return False
    others = (kind for kind in kinds[1:] if kind != raw.FPDF_SEGMENT_LINETO)
    # behind a curve no figure is taken
    return _has_straight_sides(kinds) or next(others, None) != raw.FPDF_SEGMENT_MOVETO


def _has_straight_sides(kinds: Sequence[int]) -> bool:
    """Whether all segments but the first are lines."""
    return kinds[1:].count(raw.FPDF_SEGMENT_LINETO) >= len(kinds) - 1


def _figures(kinds: Sequence[int], points: list[Point], closes: Sequence[int]) -> Iterable[list[Point]]:
    """Corners of each figure, up to the first with a curve."""
    if not _has_straight_sides(kinds) or any(closes[:-1]):
        return _figures_of_segments(kinds, points, closes)
    return [points + points[:1] if closes[-1] else points]


def _figures_of_segments(kinds: Sequence[int], points: Iterable[Point], closes: Sequence[int]) -> Iterator[list[Point]]:
    figure: list[Point] = []
    for kind, point, is_closing in zip(kinds, points, closes, strict=True):
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            return
        if kind == raw.FPDF_SEGMENT_MOVETO and figure:
            yield figure
            figure = []
        figure.append(point)
        if is_closing:
            figure.append(figure[0])
    if figure:
        yield figure
