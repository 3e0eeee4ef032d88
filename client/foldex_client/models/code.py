"""Grep, and the names that code defines and uses."""

from __future__ import annotations

from pydantic import Field

from foldex_client.models.base import Model, Note, Page
from foldex_client.models.search import Coverage
from foldex_client.models.tools import Placed


class Span(Model):
    """A part of a line, in characters from 0."""

    start: int
    end: int


class GrepHit(Model):
    """One line with a match. Lines and columns count from 1."""

    file_id_path: str
    file_path: str
    line: int
    column: int
    preview: str
    before: list[str]
    after: list[str]
    end_line: int | None = None
    rest: list[str] | None = None
    spans: list[Span] | None = None


class GrepAnswer(Model):
    """Hits by path and line. `truncated`: there may be more."""

    hits: list[GrepHit]
    truncated: bool
    coverage: Coverage
    notes: list[Note] = Field(default_factory=list)


class Use(Placed):
    """A use of a name in code. `scope` is the definition that uses it."""

    name: str
    kind: str
    scope: str | None
    start_line: int
    end_line: int


class UsePage(Page[Use]):
    """A page of uses. `notes`: what the list lacks."""

    notes: list[Note] = Field(default_factory=list)


class Symbol(Use):
    """A definition. `scope` names the enclosing definitions."""

    signature: str


class Impact(Model):
    """Places that a change of a name may affect. `truncated` names the lists that have more."""

    name: str
    definitions: list[Symbol]
    references: list[Use]
    tests: list[Use]
    text: list[GrepHit]
    truncated: list[str]
    coverage: Coverage
    notes: list[Note] = Field(default_factory=list)


class Call(Model):
    """A definition that calls another or is called by another, `depth` calls away."""

    name: str | None
    kind: str | None
    scope: str | None
    file_id: str | None
    file_path: str | None
    start_line: int | None
    end_line: int | None
    signature: str | None
    line: int
    depth: int
    via: str
    definitions: int
    confidence: str
    stopped: str | None = None
    ambiguous: bool


class CallGraph(Model):
    """Callers or callees of a name, nearest first. `truncated`: there are more."""

    name: str
    definitions: int
    ambiguous: bool
    items: list[Call]
    truncated: bool
    notes: list[Note] = Field(default_factory=list)
