"""Writes Markdown from the content of office documents: headings, paragraphs, list items and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, tee, zip_longest
from typing import TypeVar

from worker.parse.limits import Limits
from worker.parse.text.markdown import fenced

#: The start of a heading or a fence. It is escaped in a paragraph.
_MARK, _MARKS = re.compile(r"#{1,6}(?:\s|$)|`{3}|~{3}"), "#`~"
#: The first line, and below it the last line, of a code block that contains no fence.
_CODE = "```\n"
_END_OF_CODE = "\n```"
#: The start of a list item: a bullet, or a number with a sign behind it.
_ITEM = re.compile(r" *(?:-|\(?(?:\d{1,3}|[A-Za-z]|[ivxlc]{1,8})(?:\.\d{1,3})*[.)]) ")
_WORD = re.compile(r"[^\W\d_]+")
#: Words in page headers and footers that only number pages, besides Roman numerals.
_COUNTING_WORDS = (
    "page of p pg pp seite von s de du sur sida av side pagina di van página pág strona z stránka sivu стр страница из "
    "第 页 頁 页共 頁共 共 ページ 쪽 페이지"
)
#: A run of at least this many empty cells is written as one: nobody counts that many columns.
_MIN_EMPTY_RUN = 64
_COUNTING = frozenset(_COUNTING_WORDS.split())
_ROMAN = re.compile(r"[ivxlc]+")
#: Numbers, amounts, dates, times and the like, as cells show them.
_VALUE = re.compile(r"[-+]?[$€£¥]?[\d.,:/ -]*\d ?[%$€£¥]?|TRUE|FALSE")

Row = TypeVar("Row")


def heading(level: int, text: str) -> str:
    """Return a heading of level 1 to 6 on one line; "" for empty text."""
    line = _line(text)
    return f"{'#' * max(1, min(level, 6))} {line}" if line else ""


def paragraph(text: str) -> str:
    """Return a paragraph that keeps its line breaks."""
    lines = list(map(str.rstrip, text.strip().splitlines()))
    # few texts have one of the signs, and the pattern takes longer than checking the first character
    if "#" in text or "`" in text or "~" in text:
        lines = ["\\" + line if line[:1] in _MARKS and _MARK.match(line) else line for line in lines]
    return "\n".join(lines)


def item(depth: int, text: str, number: str = "") -> str:
    """Return a list item, indented by its depth from 0; a bullet without a `number`."""
    line = _line(text)
    return f"{'  ' * max(0, min(depth, 8))}{number or '-'} {line}" if line else ""


def code(text: str) -> str:
    """Return one or more lines of code; `joined` merges adjacent ones into one block."""
    text = text.strip("\n")
    return fenced(text) if text.strip() else ""


def named(name: str, text: str) -> str:
    """Return a line for text outside the main text, after the `name` of its kind; "" without text."""
    line = _line(text)
    return f"{name}: {line}" if line else ""


def comment(author: str, text: str, cell: str = "") -> str:
    """Return a reader's comment, and the `cell` that it is on, if given."""
    name = _line(author)
    return named(f"Comment{cell and f' on {cell}'}{name and f' by {name}'}", text)


def edges(kind: str, texts: Iterable[str]) -> Iterator[str]:
    """Page headers or footers, each text once. Those that only number pages are left out."""
    for line in dict.fromkeys(map(_line, texts)):
        if not all(word in _COUNTING or _ROMAN.fullmatch(word) for word in _WORD.findall(line.lower())):
            yield named(f"Page {kind}", line)


def table(rows: Iterable[Sequence[str]], limits: Limits) -> str:
    """Return a pipe table whose first row is its header. Rows without text are left out, and no row is divided."""
    lines: list[str] = []
    size = 0
    for cells in filter(None, map(_cells, rows)):
        lines += _lines(cells, is_first=not lines)
        size += len(lines[-1])
        limits.check_characters(size)
    return "\n".join(lines)


def tables(rows: Iterable[Sequence[str]], limits: Limits) -> Iterator[str]:
    """Yield the tables of a sheet; titles become paragraphs.

    A new table starts after an empty row, where names stand above values.
    """
    lines: list[str] = []
    size, below_gap = 0, False
    for cells, below, second_below in _with_next(map(_cells, rows)):
        if lines and below_gap and _starts_table(cells, below, second_below):
            yield "\n".join(lines)
            lines = []
        below_gap = not cells
        if not lines and _is_title(cells, below):
            yield paragraph("".join(cells).replace("\\|", "|"))
        elif cells:
            lines += _lines(cells, is_first=not lines)
            size += len(lines[-1])
            limits.check_characters(size)
    if lines:
        yield "\n".join(lines)


def _lines(cells: Sequence[str], *, is_first: bool) -> list[str]:
    line = f"| {' | '.join(cells)} |"
    return [line, "|" + " --- |" * len(cells)] if is_first else [line]


def _with_next(rows: Iterable[Row]) -> Iterator[tuple[Row, Row | None, Row | None]]:
    """Yield each row with the next two."""
    first, below, second_below = tee(rows, 3)
    return zip_longest(first, islice(below, 1, None), islice(second_below, 2, None))


def _starts_table(cells: Sequence[str], below: Sequence[str] | None, second_below: Sequence[str] | None) -> bool:
    return _is_header(cells, below) or (_is_title(cells, below) and _is_header(below, second_below))


def _is_header(cells: Sequence[str] | None, below: Sequence[str] | None) -> bool:
    return _filled(cells) > 1 and not _has_values(cells) and _has_values(below)


def _is_title(cells: Sequence[str], below: Sequence[str] | None) -> bool:
    """Return whether the row's only text stands above a row with several, or above a gap."""
    return _filled(cells) == 1 and below is not None and _filled(below) != 1


def _filled(cells: Sequence[str] | None) -> int:
    return sum(map(bool, cells or ()))


def _has_values(cells: Sequence[str] | None) -> bool:
    return any(_VALUE.fullmatch(cell) or (cell.endswith(")") and _is_shown_value(cell)) for cell in cells or ())


def _is_shown_value(cell: str) -> bool:
    """Return whether a cell has a value as shown, and as stored in brackets."""
    shown, _, stored = cell.removesuffix(")").rpartition(" (")
    return bool(shown) and not shown[0].isalpha() and bool(_VALUE.fullmatch(stored))


def joined(blocks: Iterable[str], limits: Limits) -> str:
    """Return the non-empty blocks as one document, with list items together. Raises `too_large` beyond the limit."""
    parts: list[str] = []
    size = 0
    previous, was_item = "", False
    for block in blocks:
        if not block or block.isspace():
            continue
        is_item = _is_item(block)
        gap = "" if not parts else "\n" if was_item and is_item else "\n\n"
        if previous.endswith(_END_OF_CODE) and block.startswith(_CODE):
            parts[-1] = parts[-1].removesuffix(_END_OF_CODE)
            parts += ("\n", block.removeprefix(_CODE))
        else:
            parts += (gap, block)
        size += len(gap) + len(block)
        limits.check_characters(size)
        previous, was_item = block, is_item
    return "".join(parts)


def laid_out(pages: Iterable[str], limits: Limits) -> tuple[str, tuple[int, ...]]:
    """Return all pages in one text, separated by blank lines, and the character offsets at which they start."""
    parts: list[str] = []
    starts: list[int] = []
    size = 0
    for page in pages:
        if page and size:
            parts.append("\n\n")
            size += 2
        starts.append(size)
        parts.append(page)
        size += len(page)
        limits.check_characters(size)
    return "".join(parts), tuple(starts)


def _is_item(block: str) -> bool:
    return bool(_ITEM.match(block)) and "\n" not in block


def _cells(row: Sequence[str]) -> list[str]:
    cells = [" ".join(cell.split()) for cell in row]
    if "|" in "".join(cells):
        cells = [cell.replace("|", "\\|") for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    return cells if len(cells) <= _MIN_EMPTY_RUN else list(_with_short_gaps(cells))


def _with_short_gaps(cells: list[str]) -> Iterator[str]:
    for text, same in groupby(cells):
        number = sum(1 for _ in same)
        yield from [text] * (1 if not text and number >= _MIN_EMPTY_RUN else number)


def _line(text: str) -> str:
    # a pattern takes twice as long
    return " ".join(text.split())
