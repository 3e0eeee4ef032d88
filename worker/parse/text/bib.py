"""Reads BibTeX, unchanged: each entry is a section, named by its title."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.text.markdown import Heading, made_heading

#: The first line of an entry, with its key. Remarks, abbreviations and preambles are not entries.
#: With the line break above, which is fast to find.
_ENTRY = re.compile(
    r"\n[ 	]*@(?!comment\b|string\b|preamble\b)\w{1,40}[ 	]*[{(]\s*([^\s,{}()]{1,200})\s*,.*$",
    re.IGNORECASE | re.MULTILINE,
)
_TITLE = re.compile(
    r"\n[ \t]*title\s*=\s*[{\"]{1,4}([^\n]{1,500}?)[}\"]{0,4},?[ \t]{0,20}\r?$", re.IGNORECASE | re.MULTILINE
)
_BRACES = re.compile(r"[{}]")


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of a bibliography. Raises as `encodings.decode`."""
    return Document(decode(data), "bibtex", markup="markdown")


def headings(text: str) -> Iterator[Heading]:
    """Yield the first lines of the entries, with the title of each, else its key."""
    entries = list(_ENTRY.finditer(f"\n{text}"))
    ends = [*(entry.start() for entry in entries), len(text)][1:]
    for entry, end in zip(entries, ends, strict=True):
        start, end_of_line = entry.span()
        title = _TITLE.search(text, end_of_line - 1, end)
        yield made_heading((start, end_of_line - 1, 1, _BRACES.sub("", title[1]).strip() if title else entry[1]))
