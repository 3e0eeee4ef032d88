"""Markdown's headings, found by a line scan: much faster than a full parse, and positions come for free."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from schemas.document import Document

#: Lines that matter: fences, ATX headings (`# …`) and setext underlines (`===`, `---`).
_MARKS = re.compile(
    r"^(?=[ #`~=-]) {0,3}(?:(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>[^\n]*)"
    r"|(?P<level>\#{1,6})(?:[ \t]+(?P<title>[^\n]*))?\r?$"
    r"|(?P<line>=+|-+)[ \t]*\r?$)",
    re.MULTILINE,
)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?![ \t]*\r?\n)(?:[^\n]*\n)*?(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)")
_CLOSING = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
#: What a setext heading's text cannot start with: a list, a quote, a table, a heading, a rule, indented code.
_NO_PARAGRAPH = re.compile(r"[ ]{4}|\t|\s*(?:[-*+>|#=<]|\d+[.)]\s|`{3}|~{3})")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; the text from `start` (character of its line's start) to `end` is the heading itself."""

    start: int
    end: int
    level: int
    title: str


def read(text: str) -> Document:
    """The document of a Markdown text, with its first heading as the title."""
    first = next(headings(text), None)
    return Document(text, "markdown", None, first.title if first else None)


def headings(text: str) -> Iterator[Heading]:
    """ATX and setext headings in order, outside of front matter and fenced code."""
    front = _FRONT_MATTER.match(text)
    fence = ""
    for mark in _MARKS.finditer(text, front.end() if front else 0):
        if mark["fence"]:
            fence = _after_fence(fence, mark)
        elif not fence:
            heading = _atx(mark) if mark["level"] else _setext(text, mark)
            if heading:
                yield heading


def _after_fence(fence: str, mark: re.Match[str]) -> str:
    """The fence that is open behind this line, "" for none."""
    if not fence:
        return mark["fence"]
    closes = mark["fence"].startswith(fence) and not mark["info"].strip()
    return "" if closes else fence


def _atx(mark: re.Match[str]) -> Heading:
    title = _CLOSING.sub("", (mark["title"] or "").strip())
    return Heading(mark.start(), mark.end(), len(mark["level"]), title.strip())


def _setext(text: str, mark: re.Match[str]) -> Heading | None:
    """The heading that this underline makes of a one-line paragraph above it; longer ones are rarely meant so."""
    above_end = mark.start() - 1
    above_start = text.rfind("\n", 0, max(above_end, 0)) + 1
    title = text[above_start : max(above_end, 0)].strip()
    before = text[text.rfind("\n", 0, max(above_start - 1, 0)) + 1 : above_start]
    if not title or before.strip() or _NO_PARAGRAPH.match(text, above_start):
        return None
    return Heading(above_start, mark.end(), 1 if mark["line"][0] == "=" else 2, title)
