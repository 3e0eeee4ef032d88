"""Finds headings in a PDF without an outline, by the size and weight of its lines.

Nothing is a heading by its words. A heading is short, and larger than the text, or bold and apart from it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from worker.parse.pdf.looks import MAX_PITCH, MAX_SHORT_CHARS, most
from worker.parse.pdf.text_lines import ROW, LineLook, PageLines
from worker.parse.text.markdown_blocks import heading, paragraph

#: Minimum size of a heading, as a multiple of the text's size: by its size alone, and if it is bold.
_MIN_LARGE, _MIN_BOLD = 1.15, 0.95
#: Minimum distance of a bold heading's baseline from the line above, as a multiple of the text's distance of lines.
_MIN_GAP = 1.3
#: The same distance as a multiple of the size, where no line follows another.
_USUAL_PITCH = 1.2
_MAX_LINES, _MAX_CHARS = 3, 200
#: Maximum share of a document's characters that headings of one look have. Beyond it they are its text.
_MAX_SHARE = 0.25
#: Minimum share of letters: formulas, prices and codes have fewer.
_MIN_LETTERS = 0.5
#: Maximum width of a character, as a multiple of its size. Wider lines are cells of a row.
_MAX_WIDTH, _MAX_WIDE_WIDTH, _FIRST_WIDE = 0.9, 1.3, "\u1100"
#: Share below which differences of size are ignored, because programs scale text.
_SAME_SIZE = 0.04
#: Number of consecutive or alternate pages after which a repeated line is a page header or footer.
_RUNNING_PAGES, _MAX_PAGES_BETWEEN = 3, 2
_NUMBER, _WORD = re.compile(r"\d+|\b[ivxlc]+\b"), re.compile(r"[^\W\d_]{2}")
_BULLET = re.compile("[-*\u2010-\u2015\u2022\u2023\u00b7\u25a0-\u25ff\u2713]")
_CAPTION = re.compile(
    r"(?:fig(?:ure|ura)?|table|tab|tabelle|tableau|tabla|tabella|abb(?:ildung)?|listing|chart|photo|plate"
    r"|рис(?:унок)?|таблица|図|图|圖|表)[.:]?\s*(?:\d|[IVX]+\b|[A-Z]\.)",
    re.IGNORECASE,
)
_LEADERS = re.compile(r"\.{4}|(?: \.){3}|(?:\. ){3}|…{2}")
_GAP = "\n\n\n"
#: Characters that end a sentence, a label or a part of either.
_NO_END = re.compile(r"[,;]$")
_END_OF_TEXT = re.compile("[.:,;\u3002\uff1a\uff0c\uff1b]$")

#: Level of each heading of a page and the number of the line after its last one, by the number of its first line.
PageHeadings = dict[int, tuple[int, int]]
#: The headings of pages that have one, by the number of the page.
Headings = dict[int, PageHeadings]


class _BodyLook(NamedTuple):
    """The look of most of a document's characters, and the usual line distance."""

    size: float
    is_bold: bool
    pitch: float


class _LineBlock(NamedTuple):
    """Consecutive lines of a page with one look, from `first` up to `end`.

    `look` is the first line's, `last` the last line's.
    """

    page: int
    first: int
    end: int
    text: str
    look: LineLook
    last: LineLook


def levels(pages: Sequence[PageLines]) -> Headings:
    """Return the headings of all pages."""
    usual = _usual(pages)
    if usual is None:
        return {}
    found = [block for number, lines in enumerate(pages) for block in _candidates(number, lines, usual)]
    total = sum(count for lines in pages for count in lines.sizes.values())
    ranks = _ranks(block.look.size for block in found)
    of_rank: dict[int, list[_LineBlock]] = defaultdict(list)
    for block in _without_running(found):
        of_rank[ranks[block.look.size]].append(block)
    headings = [same for _, same in sorted(of_rank.items()) if sum(len(b.text) for b in same) <= _MAX_SHARE * total]
    of_page: Headings = defaultdict(dict)
    for level, same in enumerate(headings, 1):
        for block in same:
            of_page[block.page][block.first] = level, block.end
    return of_page


def marked(lines: PageLines, found: PageHeadings) -> str:
    """Return the page's text as Markdown."""
    texts, blocks, at = lines.texts, list[str](), 0
    rows = [number for number, start in enumerate(lines.starts) if start == ROW] if ROW in lines.starts else []
    for first in sorted([*found, *rows]):
        if at < first:
            blocks.append(paragraph("\n".join(texts[at:first])))
        level, at = found.get(first, (0, first + 1))
        text = " ".join(texts[first:at])
        blocks += ["", heading(level, text), ""] if level else [text]
    blocks.append(paragraph("\n".join(texts[at:])))
    text = "\n".join(blocks).strip()
    # a pattern takes many times as long
    while _GAP in text:
        text = text.replace(_GAP, "\n\n")
    return text


def _usual(pages: Iterable[PageLines]) -> _BodyLook | None:
    sizes: Counter[tuple[float, bool]] = Counter()
    pitches: Counter[float] = Counter()
    for lines in pages:
        sizes.update(lines.sizes)
        pitches.update(lines.pitches)
    if not sizes:
        return None
    size, is_bold = most(sizes)
    return _BodyLook(size, is_bold, pitches.most_common(1)[0][0] if pitches else _USUAL_PITCH * size)


def _candidates(page: int, lines: PageLines, usual: _BodyLook) -> Iterator[_LineBlock]:
    for block in _blocks(page, lines):
        if block.end - block.first > _MAX_LINES or not _is_title(block.text) or _has_row(block, lines):
            continue
        is_large = block.look.size >= _MIN_LARGE * usual.size
        is_bold = block.look.is_bold and not usual.is_bold and block.look.size >= _MIN_BOLD * usual.size
        if (is_large and not _NO_END.search(block.text)) or (is_bold and _is_apart(block, usual)):
            yield block


def _blocks(page: int, lines: PageLines) -> Iterator[_LineBlock]:
    end = 0
    for first, look in lines.looks.items():
        if first < end:
            continue
        end, last = first + 1, look
        while (below := lines.looks.get(end)) and _follows(last, below):
            end, last = end + 1, below
        text = " ".join(text.strip() for text in lines.texts[first : min(end, first + _MAX_LINES)])
        yield _LineBlock(page, first, end, text, look, last)


def _follows(upper: LineLook, lower: LineLook) -> bool:
    return (
        upper.is_bold == lower.is_bold
        and abs(upper.size - lower.size) <= _SAME_SIZE * upper.size
        and 0 < upper.baseline - lower.baseline <= MAX_PITCH * upper.size
    )


def _is_title(text: str) -> bool:
    letters = sum(map(str.isalpha, text))
    return (
        len(text) <= _MAX_CHARS
        and letters >= _MIN_LETTERS * len(text.replace(" ", ""))
        and bool(_WORD.search(text))
        and not (_BULLET.match(text) or _CAPTION.match(text) or _LEADERS.search(text))
    )


def _has_row(block: _LineBlock, lines: PageLines) -> bool:
    """Return whether one of the lines is wider than its letters, as a row of cells is."""
    return any(_is_row(lines.texts[at], lines.looks[at]) for at in range(block.first, block.end))


def _is_apart(block: _LineBlock, usual: _BodyLook) -> bool:
    """Return whether a bold line is above text, apart from the line above it, and neither a label nor a sentence."""
    above, below = block.look.above, block.last.below
    if below is None or below < 0 or _END_OF_TEXT.search(block.text) or len(block.text) > MAX_SHORT_CHARS:
        return False
    # the line above may be in another column
    return above is None or above < 0 or above >= _MIN_GAP * usual.pitch


def _is_row(text: str, look: LineLook) -> bool:
    wide = 0 if text.isascii() else sum(sign >= _FIRST_WIDE for sign in text)
    return look.width > (_MAX_WIDTH * (len(text) - wide) + _MAX_WIDE_WIDTH * wide) * look.size


def _without_running(blocks: list[_LineBlock]) -> list[_LineBlock]:
    """Return the blocks except those at the same place of several consecutive pages, whatever their numbers."""
    pages: dict[tuple[str, int], list[int]] = defaultdict(list)
    keys = list(map(_running_key, blocks))
    for key, block in zip(keys, blocks, strict=True):
        pages[key].append(block.page)
    running = {key for key, numbers in pages.items() if _runs(numbers)}
    return [block for key, block in zip(keys, blocks, strict=True) if key not in running]


def _running_key(block: _LineBlock) -> tuple[str, int]:
    return _NUMBER.sub("", block.text), round(block.look.baseline / 2)


def _runs(pages: list[int]) -> bool:
    count = 1
    for earlier, later in pairwise(pages):
        count = count + 1 if 0 < later - earlier <= _MAX_PAGES_BETWEEN else 1
        if count >= _RUNNING_PAGES:
            return True
    return False


def _ranks(sizes: Iterable[float]) -> dict[float, int]:
    """Return the rank of each size from the largest on. Sizes that hardly differ have the same."""
    ranks: dict[float, int] = {}
    rank, largest = 0, 0.0
    for size in sorted(set(sizes), reverse=True):
        if not ranks or size < largest * (1 - _SAME_SIZE):
            rank, largest = rank + 1, size
        ranks[size] = rank
    return ranks
