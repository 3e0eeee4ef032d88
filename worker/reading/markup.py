r"""Markdown: entities, escapes of characters, `snake\_case`, and ruby text in elements of HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worker.reading import escapes
from worker.reading.edits import Edit, merged

#: An escaped underscore within a word, or the reading of Chinese characters and the elements around it.
_MARK = re.compile(
    r"(?<=\w)\\_(?=\w)|<(?:rt|rp)(?:\s[^<>]{0,200})?>[^<>]{0,200}(?:</(?:rt|rp)\s{0,9}>)?|</?(?:ruby|rb)(?:\s[^<>]{0,200})?>",
    re.IGNORECASE,
)


def may_have(text: str) -> bool:
    """Whether a text may have anything that is read otherwise."""
    return escapes.may_have_any(text) or _may_have_marks(text)


def edits(text: str) -> Iterator[Edit]:
    """The characters that escapes and entities stand for, words with underscores, and characters without readings."""
    marks = (Edit(match.start(), match.end(), "_" if match[0][0] == "\\" else "") for match in _marks(text))
    return merged(marks, escapes.anywhere(text))


def _marks(text: str) -> Iterator[re.Match[str]]:
    return _MARK.finditer(text) if _may_have_marks(text) else iter(())


def _may_have_marks(text: str) -> bool:
    return "\\_" in text or "<r" in text or "<R" in text or "</" in text
