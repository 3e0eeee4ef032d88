"""The outline of a PDF, found again in the text of its pages, whose lines it makes headings."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import accumulate, islice

import pypdfium2

from worker.parse.text.markdown_blocks import heading, paragraph

#: Level and title of what begins on a page.
Entries = list[tuple[int, str]]

#: Entries that are looked at; a longer outline is no list of sections.
_MOST, _MOST_OF_PAGE = 5000, 100
#: Lines that a title may be broken into.
_LINES = 3
#: Numbers in front of a title, which only one of outline and page may have.
_NUMBER = re.compile(r"(?:[\dIVXLC]+[.)]?)+(?=\W)|[A-Z][.)]?(?=\W)")
_SIGNS = re.compile(r"[\W_]+")


def entries(pdf: pypdfium2.PdfDocument) -> dict[int, Entries]:
    """What the outline says to begin on each page, by the page's number from 0."""
    found: dict[int, Entries] = defaultdict(list)
    for mark in islice(pdf.get_toc(), _MOST):
        place = mark.get_dest()
        number = place.get_index() if place else None
        title = _bare(mark.get_title())
        if number is not None and title and len(found[number]) < _MOST_OF_PAGE:
            found[number].append((mark.level + 1, title))
    return found


def marked(text: str, begin: Entries) -> str:
    """The text of a page as Markdown, with its own lines as the headings of what begins on it, where they are found."""
    lines = text.split("\n")
    first, others = list(map(_bare, lines)), [_signless(line) for line in lines]
    made: list[str] = []
    waiting = list(begin)
    at = 0
    while at < len(lines):
        starts = [entry for entry in waiting if first[at] and entry[1].startswith(first[at])]
        counts = [_count([first[at], *others[at + 1 : at + _LINES]], title) for _, title in starts]
        found = next((one for one in zip(starts, counts, strict=True) if one[1]), None)
        if found is None:
            made.append(paragraph(lines[at]))
            at += 1
            continue
        entry, count = found
        waiting.remove(entry)
        made += ["", heading(entry[0], " ".join(lines[at : at + count])), ""]
        at += count
    return "\n".join(made).strip("\n")


def _count(lines: list[str], title: str) -> int:
    """How many of the lines are the title, 0 if none is."""
    whole = accumulate(lines)
    return next((count for count, text in enumerate(whole, 1) if text == title), 0)


def _bare(title: str) -> str:
    """A title by its letters and digits alone, without its number."""
    title = title.strip()
    number = _NUMBER.match(title)
    return _signless(title[number.end() :] if number else title)


def _signless(text: str) -> str:
    return _SIGNS.sub("", text).casefold()
