"""Reads AsciiDoc, unchanged. Its headings begin with equals signs, or with number signs as in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.text.markdown import Heading, first_title, made_heading

#: With the line break above, which is fast to find.
_MARKS = re.compile(
    r"\n(?:(?P<level>={1,6}|\#{1,6})[ \t]+(?P<title>\S[^\n]*)"
    r"|(?P<fence>-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}(?=[^`\n]*$))[^\n]*)$",
    re.MULTILINE,
)


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of the text, with the first heading as title. Raises what `encodings.decode` does."""
    text = decode(data)
    return Document(text, "asciidoc", None, first_title(headings(text)), markup="markdown")


def headings(text: str) -> Iterator[Heading]:
    """Headings in order, outside literal blocks and comments."""
    fence = ""
    for match in _MARKS.finditer(f"\n{text}"):
        level, title, mark = match.group("level", "title", "fence")
        if mark:
            fence = "" if mark == fence else fence or mark
        elif not fence:
            start, end = match.span()
            yield made_heading((start, end - 1, len(level), title.strip().removesuffix(f" {level}").rstrip()))
