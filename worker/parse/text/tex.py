"""Reads LaTeX, unchanged. Its chapter and section commands are headings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.properties import properties_of
from worker.parse.text.markdown import Heading, first_title, made_heading

_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
#: Text between braces, which may contain further braces.
_BRACES = r"\{(?P<title>(?:[^{}\n]|\{[^{}\n]*\}|\n(?!\s*\n)){1,500})\}"
#: With the line break above, which is fast to find.
_HEADING = re.compile(rf"\n[ \t]*\\(?P<level>{'|'.join(_LEVELS)})\*?(?:\[[^\]\n]*\])?\s?{_BRACES}")
_TITLE = re.compile(rf"^[ \t]*\\title(?:\[[^\]\n]*\])?{_BRACES}", re.MULTILINE)
#: Characters searched for a title.
_TITLE_SEARCH_CHARS = 100_000
_SILENT = re.compile(r"\\(?:label|thanks|footnote|index)\{[^{}]*\}")
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?[ \t]*|[{}~]")


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of the text. Its title is the declared one, else the first heading.

    Raises what `encodings.decode` does.
    """
    text = decode(data)
    declared = _TITLE.search(text, 0, _TITLE_SEARCH_CHARS)
    properties = properties_of(title=_plain(declared["title"]) if declared else "")
    title = properties.title or first_title(headings(text))
    return Document(text, "tex", None, title, markup="markdown", properties=properties)


def headings(text: str) -> Iterator[Heading]:
    """Headings in order, without commands."""
    for match in _HEADING.finditer(f"\n{text}"):
        start, end = match.span()
        level, title = match.group("level", "title")
        yield made_heading((start, end - 1, _LEVELS.index(level) + 1, _plain(title)))


def _plain(title: str) -> str:
    if _COMMAND.search(title):
        title = _COMMAND.sub(" ", _SILENT.sub("", title))
    return " ".join(title.split())
