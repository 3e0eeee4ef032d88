"""The base of all models."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

Item = TypeVar("Item")


class Model(BaseModel):
    """Base of all models."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)


class Page(Model, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = None


class Note(Model):
    """Something the caller should know about an answer, such as a part that failed; `code` is stable."""

    code: str
    detail: str
