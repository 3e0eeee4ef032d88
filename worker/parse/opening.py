"""Extracts the lines above a document's text. They often name the owner and the period, where the text says "we"."""

from __future__ import annotations

from itertools import islice

from schemas.content.document import Document

#: Types of documents that people lay out on pages.
ON_PAGES = frozenset({"pdf", "docx", "doc", "odt", "fodt", "rtf", "pptx"})
#: Maximum lines above the text, and maximum characters of each. Longer lines are text.
MAX_LINES, MAX_LINE_CHARS = 3, 60
#: Characters from the beginning of a document that are searched.
_READ = 2_000
#: Signs of headings, lists, tables and emphasis in Markdown.
_MARKUP = "#*_|>-\\ \t"


def opening(document: Document) -> str:
    """Return the short lines at the beginning, on one line; empty if the text begins with a long one."""
    if document.type not in ON_PAGES:
        return ""
    lines = (line.strip(_MARKUP) for line in document.text[:_READ].splitlines())
    short = []
    for line in islice(filter(None, lines), MAX_LINES):
        if len(line) > MAX_LINE_CHARS or line.endswith((".", ";", ",")):
            break
        short.append(" ".join(line.split()))
    return " ".join(short)
