"""Reads Org, unchanged. Its headings begin with asterisks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.properties import properties_of
from worker.parse.text.markdown import Heading, first_title, made_heading

#: With the line break above, which is fast to find.
_HEADING = re.compile(
    r"\n(?P<level>\*+)[ \t]+(?:(?:TODO|DONE)[ \t]+)?(?P<title>[^\s][^\n]*?)(?:[ \t]+:[\w@#%:]+:)?[ \t]*\r?$",
    re.MULTILINE,
)
_TITLE = re.compile(r"^#\+title:[ \t]*(\S[^\r\n]{0,500})", re.MULTILINE | re.IGNORECASE)
#: Characters searched for a title.
_TITLE_SEARCH_CHARS = 10_000


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of the text. Its title is the declared one, else the first heading.

    Raises what `encodings.decode` does.
    """
    text = decode(data)
    declared = _TITLE.search(text, 0, _TITLE_SEARCH_CHARS)
    properties = properties_of(title=declared[1] if declared else "")
    title = properties.title or first_title(headings(text))
    return Document(text, "org", None, title, markup="markdown", properties=properties)


def headings(text: str) -> Iterator[Heading]:
    """Headings in order, without their TODO keywords and tags."""
    for match in _HEADING.finditer(f"\n{text}"):
        start, end = match.span()
        level, title = match.group("level", "title")
        yield made_heading((start, end - 1, len(level), title))
