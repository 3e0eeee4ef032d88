"""Finds tables in a PDF page whose cells are ruled, and writes them as rows.

A table is taken only where the geometry leaves no doubt. Rules around all cells form a grid, each line of the page is
within it or outside, and each word is within a cell.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import pypdfium2
from pypdfium2 import raw

from worker.parse.limits import Limits
from worker.parse.pdf.characters import Box, Characters
from worker.parse.pdf.paths import Paths, Point
from worker.parse.pdf.text_lines import ROW, Lines, without_hyphens
from worker.parse.text.markdown_blocks import table

#: Maximum objects, rules and cells. More are a drawing.
_MAX_OBJECTS, _MAX_RULES, _MAX_CELLS = 10_000, 2_000, 2_000
#: Maximum thickness of a rule and minimum length, in points.
_MAX_THICKNESS, _MIN_LENGTH = 3.0, 6.0
#: Places closer than this are one, in points.
_NEAR = 2.5
#: Maximum characters of a cell: more are text in a frame.
_MAX_CELL_CHARS = 1_000
#: Cells of a row that all have the same number of lines, at least this one, are rows without rules.
_MIN_ROWS_WITHOUT_RULES = 3
_WORD = re.compile(r"\S+")

#: Row and column of a cell, the cell at an index of the text, and the lines of text by cell.
_Cell = tuple[int, int]
_CellAt = Callable[[int], _Cell | None]
_Cells = dict[_Cell, list[str]]


class _Rule(NamedTuple):
    """A line at a place across its direction, from `start` to `end` along it."""

    place: float
    start: float
    end: float


class _Grid(NamedTuple):
    """Places of the rules from left to right, and from bottom to top, and the cell that each cell is part of.

    Rows are counted from the top.
    """

    xs: Sequence[float]
    ys: Sequence[float]
    whole: dict[_Cell, _Cell]


def add_tables(page: pypdfium2.PdfPage, paths: Paths, characters: Characters, lines: Lines, limits: Limits) -> None:
    """Replace the lines of ruled tables by their rows."""
    across, down = _rules(page, paths)
    for grid in _grids(across, down):
        _add_table(characters, lines, grid, limits)


def _rules(page: pypdfium2.PdfPage, paths: Paths) -> tuple[list[_Rule], list[_Rule]]:
    """Horizontal and vertical rules; none if there are too many, or if the page is turned."""
    across: list[_Rule] = []
    down: list[_Rule] = []
    count = raw.FPDFPage_CountObjects(page)
    if count > _MAX_OBJECTS or raw.FPDFPage_GetRotation(page):
        return [], []
    for path in paths.of(page, count):
        for left, bottom, right, top in _edges(paths, path):
            if top - bottom <= _MAX_THICKNESS and right - left >= _MIN_LENGTH:
                across.append(_Rule((top + bottom) / 2, left, right))
            elif right - left <= _MAX_THICKNESS and top - bottom >= _MIN_LENGTH:
                down.append(_Rule((left + right) / 2, bottom, top))
        if len(across) + len(down) > _MAX_RULES:
            return [], []
    return _merged(across), _merged(down)


def _edges(paths: Paths, path: raw.FPDF_PAGEOBJECT) -> Iterable[Box]:
    """Bounds of what may be a rule: of a thin figure, else of each side of a drawn one."""
    bounds = paths.bounds(path)
    if bounds is None:
        return ()
    left, bottom, right, top = bounds
    if right - left <= _MAX_THICKNESS or top - bottom <= _MAX_THICKNESS:
        return (bounds,)
    is_stroked = paths.is_stroked(path)
    # most are backgrounds, of a cell or a line
    if not is_stroked and paths.is_one_figure(path):
        return ()
    return _edges_of_figures(paths.figures(path), is_stroked=is_stroked)


def _edges_of_figures(figures: Iterable[list[Point]], *, is_stroked: bool) -> Iterator[Box]:
    for points in figures:
        across, down = [x for x, _ in points], [y for _, y in points]
        whole = min(across), min(down), max(across), max(down)
        if min(whole[2] - whole[0], whole[3] - whole[1]) <= _MAX_THICKNESS:
            yield whole
        elif is_stroked:
            for (x, y), (next_x, next_y) in pairwise(points):
                yield min(x, next_x), min(y, next_y), max(x, next_x), max(y, next_y)


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
    for _, start, end in sorted(rules, key=attrgetter("start")):
        if joined and start <= joined[-1].end + _NEAR:
            place, first_start, last_end = joined.pop()
            joined.append(_Rule(place, first_start, max(end, last_end)))
        else:
            joined.append(_Rule(rules[0].place, start, end))
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
    rows, columns = _by_place(across), _by_place(down)
    xs, ys = sorted(columns), sorted(rows, reverse=True)
    height, width = len(ys) - 1, len(xs) - 1
    if height < 1 or width < 1 or height * width > _MAX_CELLS:
        return None
    tops = [[_is_ruled(rows[y], x, next_x) for x, next_x in pairwise(xs)] for y in ys]
    sides = [[_is_ruled(columns[x], next_y, y) for x in xs] for y, next_y in pairwise(ys)]
    if not all(tops[0] + tops[-1]) or not all(side[0] and side[-1] for side in sides):
        return None
    whole: dict[_Cell, _Cell] = {}
    for row in range(height):
        for at in range(width):
            above = whole[row - 1, at] if not tops[row][at] else None
            beside = whole[row, at - 1] if not sides[row][at] else None
            if above and beside and above != beside:
                return None
            whole[row, at] = above or beside or (row, at)
    return _Grid(xs, ys[::-1], whole)


def _by_place(rules: Iterable[_Rule]) -> dict[float, list[_Rule]]:
    places: dict[float, list[_Rule]] = defaultdict(list)
    for rule in rules:
        places[rule.place].append(rule)
    return places


def _is_ruled(rules: Iterable[_Rule], start: float, end: float) -> bool:
    start, end = start + _NEAR, end - _NEAR
    return any(rule.start <= start and rule.end >= end for rule in rules)


def _add_table(characters: Characters, lines: Lines, grid: _Grid, limits: Limits) -> None:
    # the ends of a line are those of its words
    cell_at = cache(partial(_cell_at, characters, grid))
    inside = _inside(lines, cell_at)
    cells = _cells(lines, inside, cell_at)
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


def _inside(lines: Lines, cell_at: _CellAt) -> list[int]:
    """Numbers of the lines within the grid; none if a line crosses its frame."""
    numbers = []
    for number, (text, start) in enumerate(zip(lines.texts, lines.starts, strict=True)):
        if start == ROW or not text.strip():
            continue
        first = cell_at(start + len(text) - len(text.lstrip()))
        last = cell_at(start + len(text.rstrip()) - 1)
        if first and last:
            numbers.append(number)
        elif first or last:
            return []
    return numbers


def _cells(lines: Lines, inside: Iterable[int], cell_at: _CellAt) -> _Cells:
    """Lines of text by cell; none if a word is not within one."""
    cells: _Cells = defaultdict(list)
    for number in inside:
        parts: _Cells = defaultdict(list)
        line_start = lines.starts[number]
        for word in _WORD.finditer(lines.texts[number]):
            start, end = word.span()
            cell = cell_at(line_start + start)
            if cell is None or cell != cell_at(line_start + end - 1):
                return {}
            parts[cell].append(word[0])
        for cell, words in parts.items():
            cells[cell].append(" ".join(words))
    return cells


def _cell_at(characters: Characters, grid: _Grid, index: int) -> _Cell | None:
    """The cell in which the middle of a character is."""
    box = characters.box(index)
    if box is None:
        return None
    left, bottom, right, top = box
    column = bisect_right(grid.xs, (left + right) / 2) - 1
    row = len(grid.ys) - bisect_left(grid.ys, (bottom + top) / 2) - 1
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
