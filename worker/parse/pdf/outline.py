"""Finds the entries of a PDF's outline in the text of its pages and turns those lines into headings."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import accumulate, islice

import pypdfium2

from worker.parse.text.markdown_blocks import heading, paragraph

#: Level and title of the entries that start on a page.
Entries = list[tuple[int, str]]

#: Maximum entries used, in all and per page. A longer outline is not a list of sections.
_MOST, _MOST_OF_PAGE = 5000, 100
#: Maximum lines that a title may be broken into.
_LINES = 3
#: A number in front of a title. The outline and the page may differ in it.
_NUMBER = re.compile(r"(?:[\dIVXLC]+[.)]?)+(?=\W)|[A-Z][.)]?(?=\W)")
_SIGNS = re.compile(r"[\W_]+")


def entries(pdf: pypdfium2.PdfDocument) -> dict[int, Entries]:
    """The outline's entries by page number, from 0."""
    found: dict[int, Entries] = defaultdict(list)
    for mark in islice(pdf.get_toc(), _MOST):
        place = mark.get_dest()
        number = place.get_index() if place else None
        title = _bare(mark.get_title())
        if number is not None and title and len(found[number]) < _MOST_OF_PAGE:
            found[number].append((mark.level + 1, title))
    return found


def marked(text: str, begin: Entries) -> str:
    """The page's text as Markdown, with the lines that match outline entries as headings."""
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
    """How many leading lines together form the title; 0 if none do."""
    whole = accumulate(lines)
    return next((count for count, text in enumerate(whole, 1) if text == title), 0)


def _bare(title: str) -> str:
    """A title reduced to letters and digits, without its number."""
    title = title.strip()
    number = _NUMBER.match(title)
    return _signless(title[number.end() :] if number else title)


def _signless(text: str) -> str:
    return _SIGNS.sub("", text).casefold()
