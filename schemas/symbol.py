"""Definitions and references in code, as the API returns them."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field, computed_field


class _Named(BaseModel):
    """A name in a file's code. `scope` names the enclosing definitions, "outer/inner"; null outside all definitions."""

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
    """A use of a name in code. `scope` is the definition that uses it, "outer/inner"; null outside all definitions."""

    kind: str = Field(description="call, import, base or type")


class Symbol(_Named):
    """A definition. `scope` names the enclosing definitions, "outer/inner"; null at the top level."""

    kind: str = Field(description="class, function, method, interface, struct, enum, trait, impl, module, type, …")
    signature: str


class Call(BaseModel):
    """A definition that calls another or is called by another, `depth` calls away.

    For callers, `name` is null if the call is outside all definitions of a file. For callees, `kind` and place are null
    if the folder does not define the name (`definitions: 0`), or if it may mean several definitions (`ambiguous`).
    """

    name: str | None
    kind: str | None
    scope: str | None
    file_id: UUID | None
    file_path: str | None
    start_line: int | None
    end_line: int | None
    signature: str | None
    line: int = Field(description="Line of the first call: in this file for callers, in the file of `via` for callees.")
    depth: int
    via: str = Field(description="Name of the definition that is one call nearer.")
    definitions: int = Field(description="Number of definitions in the folder that the name may mean, up to 100.")

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def ambiguous(self) -> bool:
        """Whether the name may mean several definitions. Calls by such a name are not followed further."""
        return self.definitions > 1


class Calls(BaseModel):
    """Callers or callees of a name, nearest first, without duplicates. `truncated`: there are more than returned."""

    name: str
    definitions: int = Field(description="Number of definitions that the request matches, up to 100.")
    ambiguous: bool = Field(
        description="Whether the name has several definitions, or some callers may call another definition of it. "
        "`scope`, `file_id` or a qualified name selects one definition."
    )
    items: list[Call]
    truncated: bool
