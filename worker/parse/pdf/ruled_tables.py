"""Finds tables in a PDF page whose cells are ruled, and writes them as rows.

A table is taken only where the geometry leaves no doubt. Rules around all cells form a grid, each line of the page is
within it or outside, and each word is within a cell.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import pypdfium2
from pypdfium2 import raw

from worker.parse.limits import Limits
from worker.parse.pdf.bound import Box
from worker.parse.pdf.characters import PageCharacters
from worker.parse.pdf.paths import PagePaths, Point
from worker.parse.pdf.text_lines import ROW, PageLines, without_hyphens
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

#: Row and column of a cell, and the lines of text by cell.
_Cell = tuple[int, int]
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


def add_tables(
    page: pypdfium2.PdfPage, paths: PagePaths, characters: PageCharacters, lines: PageLines, limits: Limits
) -> None:
    """Replace the lines of ruled tables by their rows."""
    across, down = _rules(page, paths)
    for grid in _grids(across, down):
        _add_table(characters, lines, grid, limits)


def _rules(page: pypdfium2.PdfPage, paths: PagePaths) -> tuple[list[_Rule], list[_Rule]]:
    """Horizontal and vertical rules; none if there are too many, or if the page is turned."""
    across: list[_Rule] = []
    down: list[_Rule] = []
    count = raw.FPDFPage_CountObjects(page)
    if count > _MAX_OBJECTS or raw.FPDFPage_GetRotation(page):
        return [], []
    for path, bounds in paths.of(page, count):
        left, bottom, right, top = bounds
        is_thin = right - left <= _MAX_THICKNESS or top - bottom <= _MAX_THICKNESS
        for left, bottom, right, top in (bounds,) if is_thin else _sides(paths, path):
            if top - bottom <= _MAX_THICKNESS and right - left >= _MIN_LENGTH:
                across.append(_Rule((top + bottom) / 2, left, right))
            elif right - left <= _MAX_THICKNESS and top - bottom >= _MIN_LENGTH:
                down.append(_Rule((left + right) / 2, bottom, top))
        if len(across) + len(down) > _MAX_RULES:
            return [], []
    # a table has two of each
    return (_merged(across), _merged(down)) if min(len(across), len(down)) > 1 else ([], [])


def _sides(paths: PagePaths, path: raw.FPDF_PAGEOBJECT) -> Iterable[Box]:
    """Bounds of what may be a rule in a thick path: its thin figures, and each side of one that is drawn."""
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
    if len(rules) == 1:
        return rules
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
    left, left_rows = set(range(len(down))), set(range(len(across)))
    while left:
        columns, rows, new = set[int](), set[int](), {left.pop()}
        while new:
            columns |= new
            new_rows = _touching_any(across, left_rows, [down[column] for column in new])
            left_rows -= new_rows
            rows |= new_rows
            new = _touching_any(down, left, [across[row] for row in new_rows])
            left -= new
        grid = _grid([across[row] for row in rows], [down[column] for column in columns])
        if grid:
            yield grid


def _touching_any(rules: Sequence[_Rule], numbers: Iterable[int], others: Iterable[_Rule]) -> set[int]:
    """Which of the rules touch one of `others`, which have the other direction."""
    touching = set()
    for number in numbers:
        place, start, end = rules[number]
        for other_place, other_start, other_end in others:
            if start - _NEAR <= other_place <= end + _NEAR and other_start - _NEAR <= place <= other_end + _NEAR:
                touching.add(number)
                break
    return touching


def _grid(across: list[_Rule], down: list[_Rule]) -> _Grid | None:
    rows, columns = _by_place(across), _by_place(down)
    xs, ys = sorted(columns), sorted(rows)
    height, width = len(ys) - 1, len(xs) - 1
    if height < 1 or width < 1 or height * width > _MAX_CELLS:
        return None
    tops = [_ruled(rows[y], xs) for y in reversed(ys)]
    sides = [_ruled(columns[x], ys)[::-1] for x in xs]
    if not all(tops[0] + tops[-1] + sides[0] + sides[-1]):
        return None
    whole: dict[_Cell, _Cell] = {}
    for row in range(height):
        for at in range(width):
            above = whole[row - 1, at] if not tops[row][at] else None
            beside = whole[row, at - 1] if not sides[at][row] else None
            if above and beside and above != beside:
                return None
            whole[row, at] = above or beside or (row, at)
    return _Grid(xs, ys, whole)


def _by_place(rules: Iterable[_Rule]) -> dict[float, list[_Rule]]:
    places: dict[float, list[_Rule]] = defaultdict(list)
    for rule in rules:
        places[rule.place].append(rule)
    return places


def _ruled(rules: Iterable[_Rule], places: Sequence[float]) -> list[bool]:
    """Whether there is a rule between each place and the next."""
    if _is_ruled(rules, places[0], places[-1]):
        return [True] * (len(places) - 1)
    return [_is_ruled(rules, start, end) for start, end in pairwise(places)]


def _is_ruled(rules: Iterable[_Rule], start: float, end: float) -> bool:
    start, end = start + _NEAR, end - _NEAR
    return any(rule.start <= start and rule.end >= end for rule in rules)


def _add_table(characters: PageCharacters, lines: PageLines, grid: _Grid, limits: Limits) -> None:
    inside = _inside(characters, lines, grid)
    cells = _cells(characters, lines, grid, inside)
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


def _inside(characters: PageCharacters, lines: PageLines, grid: _Grid) -> list[int]:
    """Numbers of the lines within the grid; none if a line crosses its frame."""
    written = [
        (number, start, text)
        for number, (text, start) in enumerate(zip(lines.texts, lines.starts, strict=True))
        if start != ROW and text.strip()
    ]
    firsts = _cells_at(characters, grid, [start + len(text) - len(text.lstrip()) for _, start, text in written])
    lasts = _cells_at(characters, grid, [start + len(text.rstrip()) - 1 for _, start, text in written])
    if any(bool(first) != bool(last) for first, last in zip(firsts, lasts, strict=True)):
        return []
    return [number for (number, _, _), cell in zip(written, firsts, strict=True) if cell]


def _cells(characters: PageCharacters, lines: PageLines, grid: _Grid, inside: Iterable[int]) -> _Cells:
    """Lines of text by cell; none if a word is not within one."""
    words = [(number, word) for number in inside for word in _WORD.finditer(lines.texts[number])]
    firsts = _cells_at(characters, grid, [lines.starts[number] + word.start() for number, word in words])
    lasts = _cells_at(characters, grid, [lines.starts[number] + word.end() - 1 for number, word in words])
    if firsts != lasts:
        return {}
    parts: dict[tuple[int, _Cell], list[str]] = defaultdict(list)
    for (number, word), cell in zip(words, firsts, strict=True):
        if cell is None:
            return {}
        parts[number, cell].append(word[0])
    cells: _Cells = defaultdict(list)
    for (_, cell), texts in parts.items():
        cells[cell].append(" ".join(texts))
    return cells


def _cells_at(characters: PageCharacters, grid: _Grid, indexes: Sequence[int]) -> list[_Cell | None]:
    """The cells in which the middles of characters are."""
    xs, ys, cell = grid.xs, grid.ys, grid.whole.get
    height = len(ys) - 1
    return [
        cell((height - bisect_left(ys, (box[1] + box[3]) / 2), bisect_right(xs, (box[0] + box[2]) / 2) - 1))
        if box
        else None
        for box in characters.boxes(indexes)
    ]


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
