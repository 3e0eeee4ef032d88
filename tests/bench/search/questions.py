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
    """A place that answers a question: a file, or its chunks that contain a text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    contains: str = ""

    def fits(self, passage: Passage) -> bool:
        """Whether a passage lies in this place."""
        return passage.path == self.path and self.contains in passage.text


class Question(BaseModel):
    """A query, its kind, and the places that answer it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str
    kind: str
    relevant: tuple[Label, ...] = Field(min_length=1)
