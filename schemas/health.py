"""Answers of the probes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Alive(BaseModel):
    """The process runs."""

    status: Literal["ok"] = Field(default="ok", description="Always `ok`.")


class Ready(BaseModel):
    """The service can answer."""

    status: Literal["ready"] = Field(default="ready", description="Always `ready`.")
    warning: str | None = Field(
        default=None,
        description="What the operator should do, such as freeing disk space or starting workers; absent if nothing.",
    )
