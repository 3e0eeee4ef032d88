"""Reads AsciiDoc, unchanged. Its headings begin with equals signs, or with number signs as in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.text.markdown import Heading, first_title, made_heading

_MARKS = re.compile(
    r"^(?:(?P<level>={1,6}|\#{1,6})[ \t]+(?P<title>\S[^\n]*)"
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
    for match in _MARKS.finditer(text):
        if match["fence"]:
            fence = "" if match["fence"] == fence else fence or match["fence"]
        elif not fence:
            title = match["title"].strip().removesuffix(f" {match['level']}").rstrip()
            yield made_heading((*match.span(), len(match["level"]), title))
