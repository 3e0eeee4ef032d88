"""Definitions and references of code, as they are shown."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field, computed_field


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


class Call(BaseModel):
    """A definition that calls another, or is called, so many calls away (`depth`).

    Of callers, `name` is null for calls outside of all definitions of a file. Of callees, `kind` and place are null for
    a name that the folder does not define (`definitions: 0`), or that may mean one of several (`ambiguous`).
    """

    name: str | None
    kind: str | None
    scope: str | None
    file_id: UUID | None
    file_path: str | None
    start_line: int | None
    end_line: int | None
    signature: str | None
    line: int = Field(description="Of the first call: in this file for callers, in that of `via` for callees.")
    depth: int
    via: str = Field(description="Name of what is one call nearer.")
    definitions: int = Field(description="Definitions in the folder that the name may mean, counted up to 100.")

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def ambiguous(self) -> bool:
        """Whether the name may mean several definitions, so that it is not followed further by name."""
        return self.definitions > 1


class Calls(BaseModel):
    """Callers or callees of a name, nearest first, each once; `truncated` if there are more than are given."""

    name: str
    definitions: int = Field(description="Definitions that the question is about, counted up to 100.")
    ambiguous: bool = Field(
        description="There are several, of which `scope`, `file_id` or a qualified name choose one; or some of the "
        "callers may call another definition of that name."
    )
    items: list[Call]
    truncated: bool
