"""Questions and the places that answer them."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field


class Passage(NamedTuple):
    """A chunk in an answer: its path within the set's folder, its first line number, and its text."""

    path: str
    line: int
    text: str


class Label(BaseModel):
    """A place that answers a question: a file, its chunks that contain a text, or some of its lines.

    `lines` are the first and the last one. `proof` are words of the place that show the label to be right; a test looks
    for them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    contains: str = ""
    lines: tuple[int, int] | None = None
    proof: str = ""

    def fits(self, passage: Passage) -> bool:
        """Whether a passage lies in this place: of lines, it shares half of the shorter of both."""
        return passage.path == self.path and self.contains in passage.text and self._shares_lines(passage)

    def _shares_lines(self, passage: Passage) -> bool:
        if self.lines is None:
            return True
        (first, last), end = self.lines, passage.line + passage.text.count("\n")
        shared = min(last, end) - max(first, passage.line) + 1
        return 2 * shared >= min(last - first, end - passage.line) + 1


class Question(BaseModel):
    """A query, its kind, and the places that answer it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str
    kind: str
    relevant: tuple[Label, ...] = Field(min_length=1)
