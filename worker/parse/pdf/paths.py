"""The drawn paths of a PDF page: their bounds and their figures with straight sides."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, repeat
from typing import Any

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.bound import Answers, Box, Handles, bound

#: Number of objects per batch of calls.
_BLOCK = 128
#: Maximum segments of a path. More are a drawing.
_MAX_SEGMENTS = 2_000
_SEGMENTS_OF_LINE = 2
#: Maximum segments that are requested at once. A rectangle has five.
_MAX_SHORT_SEGMENTS = 6
_LINE: int = raw.FPDF_SEGMENT_LINETO
_CURVE: int = raw.FPDF_SEGMENT_BEZIERTO
_MOVE: int = raw.FPDF_SEGMENT_MOVETO
_UNMOVED = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
#: Pen widths by which the bounds of a line exceed its own: PDFium adds up to the square root of two at each end.
_MAX_PEN_WIDTHS = 3

_object = bound(raw.FPDFPage_GetObject, ctypes.c_void_p)
_bounds, _matrix = bound(raw.FPDFPageObj_GetBounds), bound(raw.FPDFPageObj_GetMatrix)
_draw_mode, _stroke_width = bound(raw.FPDFPath_GetDrawMode), bound(raw.FPDFPageObj_GetStrokeWidth)
_segment_count, _segment = bound(raw.FPDFPath_CountSegments), bound(raw.FPDFPath_GetPathSegment, ctypes.c_void_p)
_kind, _point = bound(raw.FPDFPathSegment_GetType), bound(raw.FPDFPathSegment_GetPoint)
_closes = bound(raw.FPDFPathSegment_GetClose)

Point = tuple[float, float]
#: A path of the last requested block.
Path = Any
#: A path and the number of its segments.
CountedPath = tuple[Path, int]


class PagePaths:
    """Queries PDFium about paths in batches. Single calls take several times as long."""

    def __init__(self) -> None:
        self._objects, self._segments = Handles(_BLOCK), Handles(_MAX_SEGMENTS)
        self._edges, self._matrices = Answers(ctypes.c_float, 4, _BLOCK), Answers(ctypes.c_float, 6, _BLOCK)
        self._widths, self._modes = Answers(ctypes.c_float, 1, _BLOCK), Answers(ctypes.c_int, 2, _BLOCK)
        self._points = Answers(ctypes.c_float, 2, _MAX_SEGMENTS)

    def blocks(self, page: pypdfium2.PdfPage, count: int) -> Iterator[Iterable[tuple[CountedPath, Box]]]:
        """Yield the paths among the first objects of a page, and their bounds."""
        for start in range(0, count, _BLOCK):
            numbers = range(start, min(start + _BLOCK, count))
            objects = self._objects.hold(map(_object, repeat(page.raw), numbers))
            counts = list(map(_segment_count, objects))
            # many pages have text alone, which has no number of segments
            if max(counts) < 0:
                continue
            paths = [path for path in zip(objects, counts, strict=True) if path[1] >= 0]
            found = list(map(_bounds, [path for path, _ in paths], *self._edges.places))
            yield compress(zip(paths, self._edges.first(len(paths)), strict=True), found)

    def figures(
        self, paths: Sequence[tuple[CountedPath, float]], thickness: float
    ) -> Iterator[tuple[list[Point], bool]]:
        """Corners of the figures in paths of one block, and whether their sides are drawn.

        Paths are given with the smaller side of their bounds. Two kinds of path have no figure. One is a line whose own
        bounds have a smaller side above `thickness`. The other is not drawn, and its only figure fills its bounds.
        """
        lines = [(path, side) for (path, count), side in paths if count == _SEGMENTS_OF_LINE]
        short = [path for path, _ in paths if _SEGMENTS_OF_LINE < path[1] <= _MAX_SHORT_SEGMENTS]
        longer = [path for path, _ in paths if _MAX_SHORT_SEGMENTS < path[1] <= _MAX_SEGMENTS]
        taken = [(path, _SEGMENTS_OF_LINE) for path in self._thin(lines, thickness)] if lines else []
        for batch in _batches(chain(taken, short, self._with_figure(longer) if longer else ())):
            yield from self._of_batch(batch)

    def _with_figure(self, paths: Sequence[CountedPath]) -> Iterator[CountedPath]:
        """Return the paths that may have a figure; a curve in the first one excludes it."""
        second, third = self._kinds_at(paths, 1), self._kinds_at(paths, 2)
        for each, kind, next_kind in zip(paths, second, third, strict=True):
            if _CURVE not in (kind, next_kind if kind == _LINE else kind):
                yield each

    def _kinds_at(self, paths: Sequence[CountedPath], place: int) -> list[int]:
        return list(map(_kind, self._segments.hold(map(_segment, [path for path, _ in paths], repeat(place)))))

    def _thin(self, lines: Sequence[tuple[Path, float]], thickness: float) -> Iterator[Path]:
        """Return the lines that may be thin, by their bounds and their pens."""
        paths = [path for path, _ in lines]
        found = list(map(_stroke_width, paths, *self._widths.places))
        list(map(_matrix, paths, *self._matrices.places[:1]))
        widths, matrices = self._widths.first(len(paths)), self._matrices.first(len(paths))
        for (path, side), is_found, (width,), (a, b, c, d, _, _) in zip(lines, found, widths, matrices, strict=True):
            if not is_found or b or c or side <= thickness + _MAX_PEN_WIDTHS * width * max(abs(a), abs(d)) + 1:
                yield path

    def _of_batch(self, batch: Sequence[CountedPath]) -> Iterator[tuple[list[Point], bool]]:
        paths, counts = [path for path, _ in batch], [count for _, count in batch]
        list(map(_draw_mode, paths, *self._modes.places))
        found = list(map(_matrix, paths, *self._matrices.places[:1]))
        segments_of = chain.from_iterable(map(repeat, paths, counts))
        segments = self._segments.hold(map(_segment, segments_of, chain.from_iterable(map(range, counts))))
        kinds = list(map(_kind, segments))
        shapes: list[tuple[list[int], tuple[float, ...], int]] = []
        kept: list[Any] = []
        end = 0
        for count, is_found, matrix, (_, stroke) in zip(
            counts, found, self._matrices.first(len(batch)), self._modes.first(len(batch)), strict=True
        ):
            start, end = end, end + count
            of_path = kinds[start:end]
            if is_found and (stroke or not _is_one_figure(of_path, matrix)):
                shapes.append((of_path, matrix, stroke))
                kept += segments[start:end]
        closes = list(map(_closes, kept))
        list(map(_point, kept, *self._points.places))
        points = list(self._points.first(len(kept)))
        end = 0
        for of_path, matrix, stroke in shapes:
            start, end = end, end + len(of_path)
            for figure in _figures(of_path, _moved(points[start:end], matrix), closes[start:end]):
                yield figure, bool(stroke)


def _moved(points: list[Point], matrix: Sequence[float]) -> list[Point]:
    """Return points transformed by a matrix."""
    a, b, c, d, e, f = matrix
    if b or c:
        return [(a * x + c * y + e, b * x + d * y + f) for x, y in points]
    return points if matrix == _UNMOVED else [(a * x + e, d * y + f) for x, y in points]


def _batches(paths: Iterable[CountedPath]) -> Iterator[Sequence[CountedPath]]:
    """Yield batches of paths, with the numbers of their segments, up to the limit for one path."""
    batch: list[CountedPath] = []
    size = 0
    for path, count in paths:
        if size + count > _MAX_SEGMENTS:
            yield batch
            batch, size = [], 0
        batch.append((path, count))
        size += count
    if batch:
        yield batch


def _is_one_figure(kinds: list[int], matrix: Sequence[float]) -> bool:
    """Return whether there is at most one figure that is not rotated. Its bounds are the path's."""
    if matrix[1] or matrix[2]:
        return False
    # figures after a curve are ignored
    return _has_straight_sides(kinds) or next((kind for kind in kinds[1:] if kind != _LINE), None) != _MOVE


def _has_straight_sides(kinds: list[int]) -> bool:
    """Return whether all segments but the first are lines."""
    return kinds.count(_LINE) - (kinds[0] == _LINE) >= len(kinds) - 1


def _figures(kinds: list[int], points: list[Point], closes: list[int]) -> Iterable[list[Point]]:
    """Corners of each figure, up to the first with a curve."""
    if not _has_straight_sides(kinds) or any(closes[:-1]):
        return _figures_of_segments(kinds, points, closes)
    return [points + points[:1] if closes[-1] else points]


def _figures_of_segments(kinds: Sequence[int], points: Iterable[Point], closes: Sequence[int]) -> Iterator[list[Point]]:
    figure: list[Point] = []
    for kind, point, is_closing in zip(kinds, points, closes, strict=True):
        if kind == _CURVE:
            return
        if kind == _MOVE and figure:
            yield figure
            figure = []
        figure.append(point)
        if is_closing:
            figure.append(figure[0])
    if figure:
        yield figure
