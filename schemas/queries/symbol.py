"""Definitions and references in code, as the API returns them."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field, computed_field

from schemas import fields
from schemas.content.document import UseKind
from schemas.queries.grep import GrepHit
from schemas.queries.search import Coverage, Note
from schemas.tool import Listing

CodeNodeId = Annotated[fields.FileNodeId, Field(examples=["file-reader-3f21"])]
CodePath = Annotated[fields.FilePath, Field(examples=["mail/reader.py"])]
CodeIdPath = Annotated[fields.FileIdPath, Field(examples=["/folder-001/mail/file-reader-3f21"])]


class _Named(BaseModel):
    """A name in a file's code. `scope` names the enclosing definitions, "outer/inner"; null outside all definitions."""

    name: str = Field(description="The name.", examples=["parse_header"])
    kind: str
    scope: str | None = Field(
        description="Enclosing definitions, such as `outer/inner`; null outside all definitions.",
        examples=["HeaderReader"],
    )
    file_id: fields.FileId
    file_node_id: CodeNodeId
    file_path: CodePath
    file_id_path: CodeIdPath
    start_line: int = Field(description="First line, counted from 1.", examples=[12])
    end_line: int = Field(description="Last line, inclusive.", examples=[20])


#: How code uses a name. Reads and assignments are found in the text when somebody asks, the others while indexing.
Usage = Literal[UseKind, "read", "write"]


class Use(_Named):
    """A use of a name in code. `scope` is the definition that uses it, "outer/inner"; null outside all definitions."""

    kind: str = Field(description="call, import, base, type, read or write", examples=["call"])


class Uses(Listing[Use]):
    """A page of uses."""

    notes: list[Note] = Field(
        default_factory=list, description="What the list lacks, such as uses in a language without them.", examples=[[]]
    )


class Symbol(_Named):
    """A definition. `scope` names the enclosing definitions, "outer/inner"; null at the top level."""

    kind: str = Field(
        description="class, function, method, interface, struct, enum, trait, impl, module, type, …",
        examples=["method"],
    )
    signature: str = Field(
        description="The beginning of the definition, up to its body.",
        examples=["def parse_header(self, line: bytes) -> Header:"],
    )


class Impact(BaseModel):
    """Places that a change of a name may affect. Each list has at most `limit` items."""

    name: str = Field(description="The requested name.", examples=["parse_header"])
    definitions: list[Symbol] = Field(description="Its definitions, by path and line.")
    references: list[Use] = Field(description="Its uses outside tests, by path and line.")
    tests: list[Use] = Field(description="Its uses in files of tests, by path and line.")
    text: list[GrepHit] = Field(
        description="Other lines with the word, such as in documentation, strings and comments, by path and line."
    )
    truncated: list[Literal["definitions", "references", "tests", "text"]] = Field(
        description="The lists of which there is more.", examples=[[]]
    )
    coverage: Coverage = Field(description="How much of the folder was searched.")
    notes: list[Note] = Field(default_factory=list, description="What the answer lacks.", examples=[[]])


#: How sure it is which definition a call means.
Confidence = Literal["resolved", "likely", "by_name"]
#: Why nothing is followed beyond an item.
Stopped = Literal["ambiguous", "outside", "top_level", "depth"]


class Call(BaseModel):
    """A definition that calls another or is called by another.

    For callers, `name` is null if the call is outside all definitions of a file. For callees, `kind` and place are null
    if the folder does not define the name (`definitions: 0`), or if too many definitions have it.
    """

    name: str | None = Field(description="Name of the definition; see above for null.", examples=["read_message"])
    kind: str | None = Field(description="Kind of the definition; see above for null.", examples=["function"])
    scope: str | None = Field(
        description="Enclosing definitions, such as `outer/inner`; null at the top level.", examples=[None]
    )
    file_id: UUID | None = Field(
        description="File of the definition; see above for null.", examples=["5d8f3f0c-6a1e-5b7d-9c42-1f0e8d7c6b5a"]
    )
    file_path: str | None = Field(
        description="Path of that file relative to the tool's folder.", examples=["mail/reader.py"]
    )
    start_line: int | None = Field(description="First line of the definition, counted from 1.", examples=[40])
    end_line: int | None = Field(description="Last line of the definition, inclusive.", examples=[58])
    signature: str | None = Field(
        description="The beginning of the definition, up to its body.",
        examples=["def read_message(stream: BinaryIO) -> Message:"],
    )
    line: int = Field(
        description="Line of the first call: in this file for callers, in the file of `via` for callees.", examples=[44]
    )
    depth: int = Field(description="Number of calls between this definition and the requested one.", examples=[1])
    via: str = Field(description="Name of the definition that is one call nearer.", examples=["parse_header"])
    definitions: int = Field(
        description="Number of definitions in the folder that the call may mean, up to 100.", examples=[1]
    )
    confidence: Confidence = Field(
        description="How sure it is that the call means this definition: `resolved` by what the code shows, `likely`, "
        "or `by_name` alone.",
        examples=["resolved"],
    )
    stopped: Stopped | None = Field(
        default=None,
        description="Why nothing is followed beyond it: too many definitions have the name (`ambiguous`), the folder "
        "does not define it (`outside`), the call is outside all definitions (`top_level`), or `depth` was reached. "
        "Null: all of it was followed.",
        examples=[None],
    )

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def ambiguous(self) -> bool:
        """Whether the call may mean several definitions."""
        return self.definitions > 1


class Calls(BaseModel):
    """Callers or callees of a name, nearest first, without duplicates."""

    name: str = Field(description="The requested name.", examples=["parse_header"])
    definitions: int = Field(description="Number of definitions that the request matches, up to 100.", examples=[1])
    ambiguous: bool = Field(
        description="Whether the name has several definitions, or some callers may call another definition of it. "
        "`scope`, `file_id` or a qualified name selects one definition."
    )
    items: list[Call] = Field(description="The definitions, nearest first.")
    truncated: fields.Truncated
    notes: list[Note] = Field(
        default_factory=list,
        description="What the list lacks: calls in languages without them.",
        examples=[[]],
    )
