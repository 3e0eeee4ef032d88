"""Definitions and references of code, as they are shown."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field


class _Named(BaseModel):
    """A name in the code of a file. `scope` names the definitions around it, "outer/inner"; null outside of all."""

    name: str
    kind: str
    scope: str | None
    file_id: UUID
    file_node_id: str
    file_path: str
    file_id_path: str
    start_line: int
    end_line: int


class Use(_Named):
    """A name that code uses. `scope` is the definition that uses it, "outer/inner"; null outside of all."""

    kind: str = Field(description="call, import, base or type")


class Symbol(_Named):
    """A definition. `scope` names the definitions around it, "outer/inner"; null at the top."""

    kind: str = Field(description="class, function, method, interface, struct, enum, trait, impl, module, type, …")
    signature: str
