"""What stands above the text of a document on pages: often whose it is, and of which time. Its text says "we"."""

from __future__ import annotations

from itertools import islice

from schemas.content.document import Document

#: Types of documents that people lay out on pages.
ON_PAGES = frozenset({"pdf", "docx", "doc", "odt", "fodt", "rtf", "pptx"})
#: Lines above the text, of which each has at most as many characters. Longer lines are text.
MAX_LINES, MAX_LINE_CHARS = 3, 60
#: Characters from the beginning of a document that are looked at.
_READ = 2_000
#: Signs of headings, lists, tables and stress in Markdown.
_MARKUP = "#*_|>-\\ \t"


def opening(document: Document) -> str:
    """The short lines at the beginning, on one line; empty if the text begins with others."""
    if document.type not in ON_PAGES:
        return ""
    lines = (line.strip(_MARKUP) for line in document.text[:_READ].splitlines())
    short = []
    for line in islice(filter(None, lines), MAX_LINES):
        if len(line) > MAX_LINE_CHARS or line.endswith((".", ";", ",")):
            break
        short.append(" ".join(line.split()))
    return " ".join(short)
