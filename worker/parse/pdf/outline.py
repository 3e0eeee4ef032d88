"""Finds the entries of a PDF's outline in the text of its pages and turns those lines into headings."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import accumulate, islice

import pypdfium2

from worker.parse.text.markdown_blocks import heading, paragraph

#: Level and title of the entries that start on a page.
Entries = list[tuple[int, str]]

#: Maximum entries used, in all and for each page. A longer outline is not a list of sections.
_MAX_ENTRIES = 5000
_MAX_PAGE_ENTRIES = 100
#: Maximum lines that a title may be broken into.
_MAX_TITLE_LINES = 3
#: A number before a title. The outline and the page may differ in it.
_NUMBER = re.compile(r"(?:[\dIVXLC]+[.)]?)+(?=\W)|[A-Z][.)]?(?=\W)")
_SIGNS = re.compile(r"[\W_]+")


def entries(pdf: pypdfium2.PdfDocument) -> dict[int, Entries]:
    """Return the outline's entries by page number, from 0."""
    entries_of_page: dict[int, Entries] = defaultdict(list)
    for bookmark in islice(pdf.get_toc(), _MAX_ENTRIES):
        destination = bookmark.get_dest()
        number = destination.get_index() if destination else None
        title = _bare(bookmark.get_title())
        if number is not None and title and len(entries_of_page[number]) < _MAX_PAGE_ENTRIES:
            entries_of_page[number].append((bookmark.level + 1, title))
    return entries_of_page


def with_headings(text: str, page_entries: Entries) -> str:
    """Return the page's text as Markdown, with the lines that match outline entries as headings."""
    if not page_entries:
        return "\n".join(map(paragraph, text.split("\n"))).strip("\n")
    lines = text.split("\n")
    first, others = list(map(_bare, lines)), [_signless(line) for line in lines]
    blocks: list[str] = []
    pending = list(page_entries)
    index = 0
    while index < len(lines):
        starts = [entry for entry in pending if first[index] and entry[1].startswith(first[index])]
        title_lines = [first[index], *others[index + 1 : index + _MAX_TITLE_LINES]]
        counts = [_title_line_count(title_lines, title) for _, title in starts]
        match = next((candidate for candidate in zip(starts, counts, strict=True) if candidate[1]), None)
        if match is None:
            blocks.append(paragraph(lines[index]))
            index += 1
            continue
        entry, count = match
        pending.remove(entry)
        blocks += ["", heading(entry[0], " ".join(lines[index : index + count])), ""]
        index += count
    return "\n".join(blocks).strip("\n")


def _title_line_count(lines: list[str], title: str) -> int:
    """Return the number of leading lines that together form the title; 0 if none do."""
    prefixes = accumulate(lines)
    return next((count for count, text in enumerate(prefixes, 1) if text == title), 0)


def _bare(title: str) -> str:
    """Return a title reduced to letters and digits, without its number."""
    title = title.strip()
    number = _NUMBER.match(title)
    return _signless(title[number.end() :] if number else title)


def _signless(text: str) -> str:
    return _SIGNS.sub("", text).casefold()
