"""Finds tables in a PDF page whose cells are ruled, and writes them as rows.

A table is taken only where the geometry leaves no doubt. Rules around all cells form a grid, each line of the page is
within it or outside, and each word is within a cell.
"""

from __future__ import annotations

import ctypes
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pypdfium2
from pypdfium2 import raw

from worker.parse.limits import Limits
from worker.parse.pdf.text_lines import ROW, Lines, box, without_hyphens
from worker.parse.text.markdown_blocks import table

#: Maximum objects, segments of a path, rules and cells. More are a drawing.
_MAX_OBJECTS, _MAX_SEGMENTS, _MAX_RULES, _MAX_CELLS = 10_000, 2_000, 2_000, 2_000
#: Maximum thickness of a rule and minimum length, in points.
_MAX_THICKNESS, _MIN_LENGTH = 3.0, 6.0
#: Places closer than this are one, in points.
_NEAR = 2.5
#: Maximum characters of a cell: more are text in a frame.
_MAX_CELL_CHARS = 1_000
#: Cells of a row that all have the same number of lines, at least this one, are rows without rules.
_MIN_ROWS_WITHOUT_RULES = 3
_WORD = re.compile(r"\S+")

#: Lines of text by the row and the column of their cell.
_Cells = dict[tuple[int, int], list[str]]


class _Rule(NamedTuple):
    """A line at a place across its direction, from `start` to `end` along it."""

    place: float
    start: float
    end: float


class _Grid(NamedTuple):
    """Places of the rules: `xs` from left to right, `ys` from top to bottom, and the cell that each cell is part of."""

    xs: Sequence[float]
    ys: Sequence[float]
    whole: dict[tuple[int, int], tuple[int, int]]


def add_tables(page: pypdfium2.PdfPage, layer: pypdfium2.PdfTextpage, lines: Lines, limits: Limits) -> None:
    """Replace the lines of ruled tables by their rows."""
    across, down = _rules(page)
    for grid in _grids(across, down):
        _add_table(layer, lines, grid, limits)


def _rules(page: pypdfium2.PdfPage) -> tuple[list[_Rule], list[_Rule]]:
    """Horizontal and vertical rules; none if there are too many, or if the page is turned."""
    across: list[_Rule] = []
    down: list[_Rule] = []
    count = raw.FPDFPage_CountObjects(page)
    if count > _MAX_OBJECTS or raw.FPDFPage_GetRotation(page):
        return [], []
    objects = map(partial(raw.FPDFPage_GetObject, page.raw), range(count))
    for path in (each for each in objects if raw.FPDFPageObj_GetType(each) == raw.FPDF_PAGEOBJ_PATH):
        for left, bottom, right, top in _edges(path):
            if top - bottom <= _MAX_THICKNESS and right - left >= _MIN_LENGTH:
                across.append(_Rule((top + bottom) / 2, left, right))
            elif right - left <= _MAX_THICKNESS and top - bottom >= _MIN_LENGTH:
                down.append(_Rule((left + right) / 2, bottom, top))
        if len(across) + len(down) > _MAX_RULES:
            return [], []
    return _merged(across), _merged(down)


def _edges(path: raw.FPDF_PAGEOBJECT) -> Iterator[tuple[float, float, float, float]]:
    """Bounds of what may be a rule: of a thin figure, else of each side of a drawn one."""
    bounds = [ctypes.c_float() for _ in range(4)]
    if not raw.FPDFPageObj_GetBounds(path, *bounds):
        return
    left, bottom, right, top = (bound.value for bound in bounds)
    if min(right - left, top - bottom) <= _MAX_THICKNESS:
        yield left, bottom, right, top
        return
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    raw.FPDFPath_GetDrawMode(path, fill, stroke)
    for points in _figures(path):
        across, down = [x for x, _ in points], [y for _, y in points]
        whole = min(across), min(down), max(across), max(down)
        if min(whole[2] - whole[0], whole[3] - whole[1]) <= _MAX_THICKNESS:
            yield whole
        elif stroke.value:
            for (x, y), (next_x, next_y) in pairwise(points):
                yield min(x, next_x), min(y, next_y), max(x, next_x), max(y, next_y)


def _figures(path: raw.FPDF_PAGEOBJECT) -> Iterator[list[tuple[float, float]]]:
    """Corners of each figure of a path that has straight sides only."""
    count = raw.FPDFPath_CountSegments(path)
    matrix = raw.FS_MATRIX()
    if count > _MAX_SEGMENTS or not raw.FPDFPageObj_GetMatrix(path, matrix):
        return
    points: list[tuple[float, float]] = []
    x, y = ctypes.c_float(), ctypes.c_float()
    for at in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, at)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            return
        if kind == raw.FPDF_SEGMENT_MOVETO and points:
            yield points
            points = []
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        across, down = x.value, y.value
        points.append((matrix.a * across + matrix.c * down + matrix.e, matrix.b * across + matrix.d * down + matrix.f))
        if raw.FPDFPathSegment_GetClose(segment):
            points.append(points[0])
    if points:
        yield points


def _merged(rules: Iterable[_Rule]) -> list[_Rule]:
    """Rules at one place that touch, as one. Programs draw a rule for each side of each cell."""
    merged: list[_Rule] = []
    at_place: list[_Rule] = []
    for rule in sorted(rules):
        if at_place and rule.place - at_place[0].place > _NEAR:
            merged += _touching(at_place)
            at_place = []
        at_place.append(rule)
    return merged + _touching(at_place)


def _touching(rules: list[_Rule]) -> list[_Rule]:
    joined: list[_Rule] = []
    for rule in sorted(rules, key=lambda rule: rule.start):
        if joined and rule.start <= joined[-1].end + _NEAR:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, rule.end))
        else:
            joined.append(_Rule(rules[0].place, rule.start, rule.end))
    return joined


def _grids(across: list[_Rule], down: list[_Rule]) -> Iterator[_Grid]:
    """Grids of rules that touch each other."""
    left = set(range(len(down)))
    while left:
        columns, rows, new = set[int](), set[int](), {left.pop()}
        while new:
            columns |= new
            rows |= {at for at, rule in enumerate(across) if any(_touch(rule, down[column]) for column in new)}
            new = {at for at in left if any(_touch(across[row], down[at]) for row in rows)}
            left -= new
        grid = _grid([across[row] for row in rows], [down[column] for column in columns])
        if grid:
            yield grid


def _touch(row: _Rule, column: _Rule) -> bool:
    return (
        row.start - _NEAR <= column.place <= row.end + _NEAR and column.start - _NEAR <= row.place <= column.end + _NEAR
    )


def _grid(across: list[_Rule], down: list[_Rule]) -> _Grid | None:
    xs = sorted({rule.place for rule in down})
    ys = sorted({rule.place for rule in across}, reverse=True)
    height, width = len(ys) - 1, len(xs) - 1
    if height < 1 or width < 1 or height * width > _MAX_CELLS:
        return None
    tops = [[_is_ruled(across, ys[row], xs[at], xs[at + 1]) for at in range(width)] for row in range(height + 1)]
    sides = [[_is_ruled(down, xs[at], ys[row + 1], ys[row]) for at in range(width + 1)] for row in range(height)]
    if not all(tops[0] + tops[-1]) or not all(side[0] and side[-1] for side in sides):
        return None
    whole: dict[tuple[int, int], tuple[int, int]] = {}
    for row in range(height):
        for at in range(width):
            above = whole[row - 1, at] if not tops[row][at] else None
            beside = whole[row, at - 1] if not sides[row][at] else None
            if above and beside and above != beside:
                return None
            whole[row, at] = above or beside or (row, at)
    return _Grid(xs, ys, whole)


def _is_ruled(rules: Iterable[_Rule], place: float, start: float, end: float) -> bool:
    return any(rule.place == place and rule.start <= start + _NEAR and rule.end >= end - _NEAR for rule in rules)


def _add_table(layer: pypdfium2.PdfTextpage, lines: Lines, grid: _Grid, limits: Limits) -> None:
    inside = _inside(layer, lines, grid)
    cells = _cells(layer, lines, inside, grid)
    if not _is_certain(cells):
        return
    rows = [
        [_text(cells.get((row, column), ())) for column in range(len(grid.xs) - 1)] for row in range(len(grid.ys) - 1)
    ]
    if any(len(text) > _MAX_CELL_CHARS for row in rows for text in row):
        return
    shown = ["", *table(rows, limits).split("\n"), ""]
    for number in reversed(inside[1:]):
        del lines.texts[number], lines.starts[number]
    lines.texts[inside[0] : inside[0] + 1] = shown
    lines.starts[inside[0] : inside[0] + 1] = [ROW] * len(shown)


def _inside(layer: pypdfium2.PdfTextpage, lines: Lines, grid: _Grid) -> list[int]:
    """Numbers of the lines within the grid; none if a line crosses its frame."""
    numbers = []
    for number, (text, start) in enumerate(zip(lines.texts, lines.starts, strict=True)):
        if start == ROW or not text.strip():
            continue
        ends = start + len(text) - len(text.lstrip()), start + len(text.rstrip()) - 1
        places = [_cell_at(layer, index, grid) for index in ends]
        if all(places):
            numbers.append(number)
        elif any(places):
            return []
    return numbers


def _cells(layer: pypdfium2.PdfTextpage, lines: Lines, inside: Iterable[int], grid: _Grid) -> _Cells:
    """Lines of text by cell; none if a word is not within one."""
    cells: _Cells = defaultdict(list)
    for number in inside:
        parts: _Cells = defaultdict(list)
        for word in _WORD.finditer(lines.texts[number]):
            start, last = lines.starts[number] + word.start(), lines.starts[number] + word.end() - 1
            first_cell, last_cell = _cell_at(layer, start, grid), _cell_at(layer, last, grid)
            if first_cell is None or first_cell != last_cell:
                return {}
            parts[first_cell].append(word[0])
        for cell, words in parts.items():
            cells[cell].append(" ".join(words))
    return cells


def _cell_at(layer: pypdfium2.PdfTextpage, index: int, grid: _Grid) -> tuple[int, int] | None:
    """The cell in which the middle of a character is."""
    bounds = box(layer, index)
    if bounds is None:
        return None
    x, y = (bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2
    column = sum(place <= x for place in grid.xs) - 1
    row = sum(place >= y for place in grid.ys) - 1
    return grid.whole.get((row, column))


def _is_certain(cells: _Cells) -> bool:
    """Whether two rows and two columns have text, and each row is one."""
    counts: dict[int, list[int]] = defaultdict(list)
    for (row, _), texts in cells.items():
        counts[row].append(len(texts))
    if len(counts) < 2 or len({column for _, column in cells}) < 2:  # noqa: PLR2004 - rows and columns
        return False
    return not any(
        len(numbers) > 1 and len(set(numbers)) == 1 and numbers[0] >= _MIN_ROWS_WITHOUT_RULES
        for numbers in counts.values()
    )


def _text(lines: Iterable[str]) -> str:
    return without_hyphens("\n".join(lines))
