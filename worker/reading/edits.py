"""A piece of a written text with what stands for it when the text is read."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """The characters from `start` to `end` are read as `text`. The edits of a text are ordered and do not overlap."""

    start: int
    end: int
    text: str
