"""Definitions and references of code, as they are shown."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field


class Use(BaseModel):
    """A name that code uses. `scope` is the definition that uses it, "outer/inner"; null outside of all."""

    name: str
    kind: str = Field(description="call, import, base or type")
    scope: str | None
    file_id: UUID
    file_node_id: str
    file_path: str
    file_id_path: str
    start_line: int
    end_line: int


class Symbol(BaseModel):
    """A definition. `scope` names the definitions around it, "outer/inner"; null at the top."""

    name: str
    kind: str = Field(description="class, function, method, interface, struct, enum, trait, impl, module, type, …")
    scope: str | None
    file_id: UUID
    file_node_id: str
    file_path: str
    file_id_path: str
    start_line: int
    end_line: int
    signature: str
