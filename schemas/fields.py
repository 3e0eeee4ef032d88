"""Fields that several models share: what each means, with one example."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, Field, WithJsonSchema

from schemas.content.metadata import KEY_PATTERN, checked_metadata

#: Of a field of a row that no answer shows.
HIDDEN = Field(exclude=True)


_Value = TypeVar("_Value")
#: Marks a field that describes all files of an index, also those that a caller may not read.
COVERS_FILES = "covers files"
#: The type of such a field. It is null for callers who may not read all files.
Covering = Annotated[_Value | None, COVERS_FILES]

ProjectId = Annotated[str, Field(description="Project that owns it.", examples=["project-1"])]
ToolId = Annotated[UUID, Field(description="Id of the search tool.", examples=["7b0c1e5e-2f63-4c52-9f3a-0d6f3f0f4a11"])]
TaskId = Annotated[UUID, Field(description="Id of the task.", examples=["c2a6b0de-93f1-4d8b-8a5e-54f0c9a7d201"])]
Namespace = Annotated[
    str,
    Field(
        description="Name of the index in the vector store. It never changes.",
        examples=["project_project-1_folder_folder-001"],
    ),
]
CreatedAt = Annotated[datetime, Field(description="Time of creation.", examples=["2026-11-20T09:30:00Z"])]
UpdatedAt = Annotated[datetime, Field(description="Time of the last change.", examples=["2026-11-20T09:30:12Z"])]

FileId = Annotated[
    UUID, Field(description="Id of the file within the index.", examples=["5d8f3f0c-6a1e-5b7d-9c42-1f0e8d7c6b5a"])
]
FileNodeId = Annotated[
    str, Field(description="Id of the file's node; the file id for other sources.", examples=["file-data-68abc"])
]
FilePath = Annotated[str, Field(description="Path relative to the tool's folder.", examples=["data.json"])]
FileIdPath = Annotated[
    str,
    Field(
        description="Path of node ids from the project's root; for other sources `/` and the relative path.",
        examples=["/folder-001/file-data-68abc"],
    ),
]
FileName = Annotated[str, Field(description="Last part of the path.", examples=["data.json"])]
FileType = Annotated[
    str | None,
    Field(description="Format as it was read, such as markdown, code or pdf; null if unknown.", examples=["json"]),
]
Language = Annotated[
    str | None,
    Field(description="Programming or markup language, such as python; null if there is none.", examples=["json"]),
]
IsStale = Annotated[
    bool,
    Field(description="Whether the file has a newer version that is not indexed yet, or could not be, or is gone."),
]

ChunkId = Annotated[UUID, Field(description="Id of the chunk.", examples=["0c9c7a52-8f53-4c1e-b4a4-2b8e5d1f7a90"])]
ChunkText = Annotated[
    str, Field(description="Text of the chunk.", examples=['"auth": {\n  "type": "JWT",\n  "login_url": "/login"\n}'])
]
ChunkIndex = Annotated[int, Field(description="Position among the chunks of the file, from 0.", examples=[0])]
TotalChunks = Annotated[int, Field(description="Number of chunks of the file.", examples=[2])]
Title = Annotated[
    str | None,
    Field(description="Nearest heading, or the title of the document; null if there is none.", examples=[None]),
]
JsonPointer = Annotated[
    str | None,
    Field(
        description='JSON pointer (RFC 6901) to the value; "" is the whole document; null outside JSON.',
        examples=["/config/auth"],
    ),
]
SymbolName = Annotated[
    str | None, Field(description="Name of the definition in the chunk; null outside code.", examples=[None])
]
NodeType = Annotated[
    str | None,
    Field(description="Kind of the definition, such as function, or of the JSON value.", examples=["object"]),
]
ChunkScope = Annotated[
    str | None,
    Field(
        description="Enclosing definitions or JSON keys, such as `outer/inner`; null at the top.", examples=["config"]
    ),
]
PageNumber = Annotated[int | None, Field(description="Page of a PDF document, counted from 1; null otherwise.")]

StartLine = Annotated[int, Field(description="First line, counted from 1.", examples=[3])]
EndLine = Annotated[int, Field(description="Last line, inclusive.", examples=[6])]
StartChar = Annotated[
    int, Field(description="First character in the file's extracted text, counted from 0.", examples=[15])
]
EndChar = Annotated[int, Field(description="End in the file's extracted text, exclusive.", examples=[69])]

TookMs = Annotated[float, Field(description="Duration in milliseconds.", examples=[12.3])]
Truncated = Annotated[bool, Field(description="Whether there may be more than returned, because a limit was reached.")]

_STRINGS = {"type": "array", "items": {"type": "string"}}
_VALUE_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, _STRINGS]}

#: A flat object of strings, numbers, booleans and lists of strings. Times are strings of RFC 3339.
Metadata = Annotated[
    dict[str, Any],
    BeforeValidator(checked_metadata),
    WithJsonSchema(
        {"type": "object", "propertyNames": {"pattern": KEY_PATTERN}, "additionalProperties": _VALUE_SCHEMA}
    ),
]
