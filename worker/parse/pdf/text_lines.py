"""The lines of a PDF page's text layer.

They are columns of texts and numbers: an object for each line takes more time than the lines themselves.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate, count
from operator import add
from typing import NamedTuple

import pypdfium2

from worker.parse.pdf import right_to_left

#: The place of a row of a Markdown table, which is not a line of the page.
ROW = -1
_BREAK = "\r\n"
_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
#: A hyphen at a line's end: one that PDFium marks, or one that it does not mark.
_HYPHEN = re.compile(r"[\x02\ufffe]\n?|[\xad\u2010]\n(?<=\w..)(?=\w)", re.DOTALL)
_HYPHENS = "\x02\ufffe\xad\u2010"
#: Text after a hyphen within a name: no word is divided before a digit, or before a capital after a small letter.
_DIGIT, _CAPITAL = re.compile(r"\d"), re.compile("[A-Z]")
_SMALL = re.compile(r"[^\W\d_A-Z]")


class LineLook(NamedTuple):
    """The look of a short, upright line: the size of its letters, its baseline and its width, in points.

    `above` and `below` are the distances from the baselines of the lines before and after, negative if those are on the
    other side, as in another column. They are None if there is no such line.
    """

    size: float
    is_bold: bool
    baseline: float
    width: float
    above: float | None
    below: float | None


@dataclass(slots=True)
class PageLines:
    """The lines of a page: their texts, and the index of each in the page's text, or `ROW`.

    `looks` has the lines that may be headings, by number. `sizes` counts characters by size and weight, `pitches` lines
    by their distance from the one above.
    """

    texts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    looks: dict[int, LineLook] = field(default_factory=dict)
    sizes: dict[tuple[float, bool], int] = field(default_factory=dict)
    pitches: dict[float, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text without blank lines around it."""
        return "\n".join(self.texts).strip()


def lines_of(layer: pypdfium2.PdfTextPage, text: str) -> PageLines:
    """Return the lines of a page's text, in its order."""
    texts, starts = split(text)
    repaired = right_to_left.repaired(layer, text)
    # repairs are made within lines
    return PageLines(texts if repaired is text else split(repaired)[0], starts)


def split(text: str) -> tuple[list[str], list[int]]:
    """Return the lines of a text, with an empty one at its end, and where they start."""
    if not text.count("\r") == text.count("\n") == text.count(_BREAK):
        matches = list(_LINE.finditer(text))
        return [match[1] for match in matches], [match.start() for match in matches]
    # as PDFium writes it: several times as fast
    texts = text.split(_BREAK)
    starts = list(map(add, accumulate(map(len, texts[:-1]), initial=0), count(0, len(_BREAK))))
    if texts[-1]:
        texts.append("")
        starts.append(len(text))
    return texts, starts


def join_words(lines: PageLines) -> None:
    """Remove the hyphens that break words. A joined line keeps the look of its first part."""
    texts = lines.texts
    text = "\n".join(texts)
    joined_text = without_hyphens(text)
    if joined_text is text:
        return
    lines.texts = joined_text.split("\n")
    if len(lines.texts) == len(texts):
        return
    places = list(accumulate((len(text) + 1 for text in texts), initial=0))
    joined = [bisect_left(places, match.end()) for match in _HYPHEN.finditer(text) if "\n" in match[0]]
    kept = sorted(set(range(len(texts))).difference(joined))
    lines.starts = [lines.starts[number] for number in kept]
    lines.looks = {at: lines.looks[number] for at, number in enumerate(kept) if number in lines.looks}


def without_hyphens(text: str) -> str:
    """Return the text without the hyphens that break words."""
    return _HYPHEN.sub(_hyphen, text) if may_break(text) else text


def may_break(text: str) -> bool:
    """Return whether a text has a sign that may be such a hyphen."""
    # most texts have none, and the pattern takes a hundred times as long to find that out
    if text.isascii():
        return "\x02" in text
    return any(sign in text for sign in _HYPHENS)


def _hyphen(at_end: re.Match[str]) -> str:
    """Return the hyphen if it is part of a name, else nothing."""
    text, start, end = at_end.string, *at_end.span()
    is_name = _DIGIT.match(text, end) or (_CAPITAL.match(text, end) and start and _SMALL.match(text, start - 1))
    return "-" if is_name else ""
