"""Reads reStructuredText, unchanged. Its headings have a line of punctuation below, or above and below."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.text.markdown import Heading, first_title, made_heading

#: Two or more of the same character. A back-reference would take memory for each of them, and to try each sign in front
#: of a letter would take time.
_SIGNS = r"(?=[!-/:-@\[-`{-~])(?:" + "|".join(re.escape(sign) + "{2,}" for sign in string.punctuation) + ")"
#: With the line break above, which is fast to find.
_HEADING = re.compile(
    rf"\n(?:(?P<over>{_SIGNS})[ \t]*\r?\n[ \t]*|(?=[^\s]))(?P<title>[^\s][^\n]*)\n(?P<under>{_SIGNS})[ \t]*\r?$",
    re.MULTILINE,
)
_LETTER = re.compile(r"\w")


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of the text, with the first heading as title. Raises what `encodings.decode` does."""
    text = decode(data)
    return Document(text, "rst", None, first_title(headings(text)), markup="markdown")


def headings(text: str) -> Iterator[Heading]:
    """Headings in order. Each style of underline is a level, and those that appear first are the highest."""
    levels: dict[tuple[str, bool], int] = {}
    for match in _HEADING.finditer(f"\n{text}"):
        title, over, under = match.group("title", "over", "under")
        title = title.rstrip()
        # an underline shorter than its title is text, and a title needs a letter or digit
        if len(under) < len(title) or (over and over != under) or not _LETTER.search(title):
            continue
        level = levels.setdefault((under[0], bool(over)), len(levels) + 1)
        start, end = match.span()
        yield made_heading((start, end - 1, level, title))
