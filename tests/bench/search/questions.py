"""Questions and what answers them."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field


class Passage(NamedTuple):
    """A chunk of an answer: its file's path within the set's folder, its first line's number, and its text."""

    path: str
    line: int
    text: str


class Label(BaseModel):
    """A place that answers a question: a file, or those of its chunks that contain a text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    contains: str = ""

    def fits(self, passage: Passage) -> bool:
        """Whether a passage is such a place."""
        return passage.path == self.path and self.contains in passage.text


class Question(BaseModel):
    """A query, what kind of query it is, and the places that answer it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str
    kind: str
    relevant: tuple[Label, ...] = Field(min_length=1)
