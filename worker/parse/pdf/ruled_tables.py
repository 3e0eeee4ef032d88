"""Finds tables in a PDF page whose cells are ruled, and writes them as rows.

A table is taken only where the geometry leaves no doubt. Rules around all cells form a grid, each line of the page is
within it or outside, and each word is within a cell.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import accumulate, count, repeat
from math import inf, isnan
from operator import add, invert

import pypdfium2

from worker.parse.limits import Limits
from worker.parse.pdf.characters import PageCharacters
from worker.parse.pdf.grids import Cell, Grid, grids
from worker.parse.pdf.paths import PagePaths
from worker.parse.pdf.rules import rules
from worker.parse.pdf.text_lines import ROW, PageLines, may_break, without_hyphens
from worker.parse.text.markdown_blocks import table

#: Maximum characters of a cell: longer ones are text in a frame.
_MAX_CELL_CHARS = 1_000
#: Cells of a row that all have the same number of lines, at least this one, are rows without rules.
_MIN_ROWS_WITHOUT_RULES = 3
#: Number of line ends beside a grid that are all examined. Sorting the others takes longer.
_FEW_ENDS = 200
_WORD = re.compile(r"\S+")

#: The lines of text by cell.
_Cells = dict[Cell, list[str]]
#: The lines of a table's text as rows, by the number of its first line.
_Tables = dict[int, list[str]]


def add_tables(
    page: pypdfium2.PdfPage, paths: PagePaths, characters: PageCharacters, lines: PageLines, limits: Limits
) -> None:
    """Replace the lines of ruled tables by their rows."""
    found = list(grids(*rules(page, paths)))
    # most pages have none
    if not found:
        return
    ends, tables, taken = _Ends(characters, lines), _Tables(), set[int]()
    for grid in found:
        inside = ends.inside(grid, taken)
        rows = _rows(characters, lines, grid, inside, limits)
        if rows:
            tables[inside[0]] = rows
            taken.update(inside)
    if tables:
        _replace(lines, tables, taken)


def _replace(lines: PageLines, tables: _Tables, taken: Collection[int]) -> None:
    """Put tables in place of the first of their lines, and remove the others."""
    texts, starts = [], []
    for number, (text, start) in enumerate(zip(lines.texts, lines.starts, strict=True)):
        if number in tables:
            texts += tables[number]
            starts += [ROW] * len(tables[number])
        elif number not in taken:
            texts.append(text)
            starts.append(start)
    lines.texts, lines.starts = texts, starts


class _Ends:
    """The places where the lines of a page start and end, by their height and by their distance from the left.

    The end of a line has the complement of its number.
    """

    def __init__(self, characters: PageCharacters, lines: PageLines) -> None:
        written = list(map(str.rstrip, lines.texts))
        numbers = [number for number, text in enumerate(written) if text]
        firsts = [lines.starts[number] + len(written[number]) - len(written[number].lstrip()) for number in numbers]
        lasts = [lines.starts[number] + len(written[number]) - 1 for number in numbers]
        places = zip(*characters.middles(firsts + lasts), [*numbers, *map(invert, numbers)], strict=True)
        self._rightwards = [place for place in places if not isnan(place[0])]
        self._upwards = sorted((y, x, number) for x, y, number in self._rightwards)
        self._is_sorted = False

    def inside(self, grid: Grid, taken: set[int]) -> list[int]:
        """Return the numbers of the lines within the grid that are not taken; none if a line crosses its frame."""
        left, right, bottom, top = grid.xs[0], grid.xs[-1], grid.ys[0], grid.ys[-1]
        beside = slice(bisect_right(self._upwards, (bottom, inf)), bisect_right(self._upwards, (top, inf)))
        if beside.stop - beside.start <= _FEW_ENDS:
            found = [number for _, x, number in self._upwards[beside] if left <= x < right]
        else:
            found = self._between(grid, beside)
        starting = {number for number in found if number >= 0} - taken
        ending = {~number for number in found if number < 0} - taken
        return sorted(starting) if starting == ending else []

    def _between(self, grid: Grid, beside: slice) -> list[int]:
        """Return the line ends within the grid, from those beside it, or from those above and below if fewer."""
        left, right, bottom, top = grid.xs[0], grid.xs[-1], grid.ys[0], grid.ys[-1]
        if not self._is_sorted:
            self._rightwards.sort()
            self._is_sorted = True
        above = slice(bisect_left(self._rightwards, (left, -inf)), bisect_left(self._rightwards, (right, -inf)))
        if beside.stop - beside.start <= above.stop - above.start:
            return [number for _, x, number in self._upwards[beside] if left <= x < right]
        return [number for _, y, number in self._rightwards[above] if bottom < y <= top]


def _rows(characters: PageCharacters, lines: PageLines, grid: Grid, inside: Sequence[int], limits: Limits) -> list[str]:
    """Return the rows of a table in Markdown, between blank lines; none if it may not be a table."""
    if _is_running_text([lines.texts[number] for number in inside], grid):
        return []
    cells = _cells(characters, lines, grid, inside)
    if not _is_certain(cells):
        return []
    texts = {cell: "\n".join(parts) for cell, parts in cells.items()}
    if may_break("".join(texts.values())):
        texts = {cell: without_hyphens(text) for cell, text in texts.items()}
    if max(map(len, texts.values())) > _MAX_CELL_CHARS:
        return []
    rows = [[""] * (len(grid.xs) - 1) for _ in range(len(grid.ys) - 1)]
    for (row, column), text in texts.items():
        rows[row][column] = text
    return ["", *table(rows, limits).split("\n"), ""]


def _is_running_text(texts: Sequence[str], grid: Grid) -> bool:
    """Return whether the cells are too small for the texts. Locating each word takes hundreds of times as long.

    Half of the characters may be hyphens that are removed.
    """
    most = 2 * _MAX_CELL_CHARS * len(grid.cells)
    return sum(map(len, texts)) > most and sum(len(word) for text in texts for word in text.split()) > most


def _cells(characters: PageCharacters, lines: PageLines, grid: Grid, inside: Sequence[int]) -> _Cells:
    """Lines of text by cell; none if a word is not within one."""
    words_of_lines: list[list[str]] = []
    firsts, lasts = list[int](), list[int]()
    for number in inside:
        words, starts = _words(lines.texts[number], lines.starts[number])
        words_of_lines.append(words)
        firsts += starts
        lasts += [start + len(word) - 1 for start, word in zip(starts, words, strict=True)]
    found = _cells_at(characters, grid, firsts + lasts)
    at = found[: len(firsts)]
    if None in at or at != found[len(firsts) :]:
        return {}
    cells: _Cells = defaultdict(list)
    cells_of_words = iter(at)
    for words in words_of_lines:
        parts: dict[Cell | None, list[str]] = {}
        for word, cell in zip(words, cells_of_words, strict=False):
            if cell in parts:
                parts[cell].append(word)
            else:
                parts[cell] = [word]
        for cell, texts in parts.items():
            if cell:
                cells[cell].append(" ".join(texts))
    return cells


def _words(text: str, start: int) -> tuple[list[str], list[int]]:
    """Words of a line that starts at an index, and where they start."""
    words = text.split()
    if len(text) != sum(map(len, words)) + len(words) - 1:
        return words, [start + word.start() for word in _WORD.finditer(text)]
    # a pattern takes several times as long
    return words, list(map(add, accumulate(map(len, words[:-1]), initial=start), count()))


def _cells_at(characters: PageCharacters, grid: Grid, indexes: Sequence[int]) -> list[Cell | None]:
    """Return the cells in which the middles of characters are."""
    across, down = characters.middles(indexes)
    below, left = map(bisect_left, repeat(grid.ys), down), map(bisect_right, repeat(grid.xs), across)
    return list(map(grid.cells.get, zip(below, left, strict=True)))


def _is_certain(cells: _Cells) -> bool:
    """Return whether two rows and two columns have text, and each row is one."""
    if len({row for row, _ in cells}) < 2 or len({column for _, column in cells}) < 2:  # noqa: PLR2004 - two of each
        return False
    if max(map(len, cells.values())) < _MIN_ROWS_WITHOUT_RULES:
        return True
    counts: dict[int, list[int]] = defaultdict(list)
    for (row, _), texts in cells.items():
        counts[row].append(len(texts))
    return not any(
        len(numbers) > 1 and len(set(numbers)) == 1 and numbers[0] >= _MIN_ROWS_WITHOUT_RULES
        for numbers in counts.values()
    )
