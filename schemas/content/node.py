"""Content nodes as the API accepts and returns them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from schemas import fields
from schemas.content.acl import Acl
from schemas.fields import Metadata
from schemas.ids import NewId
from schemas.queries.search import Note
from schemas.url import Url

ACL_DESCRIPTION = (
    "Who may read it, and what it contains that has no list of its own: principals such as `user:ann@example.org` and "
    "`group:hr`, or `*` for everybody. One after `!` may not, whatever else it has. An empty list admits nobody. Null: "
    "whoever may read the folder above; at the top, everybody."
)


class NewNode(BaseModel):
    """A folder, or a file with its content."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"id": "folder-001", "name": "docs", "type": "folder"},
                {"parent_id": "folder-001", "name": "readme.md", "type": "markdown", "content": "# Overview\n\nHello."},
                {"parent_id": "folder-001", "name": "data.json", "type": "json", "content": {"config": {"port": 80}}},
            ]
        },
    )

    id: NewId | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Id within the project; null: Foldex creates one.",
    )
    parent_id: str | None = Field(
        default=None, max_length=200, description="Id of the enclosing folder; null: the project's root."
    )
    name: str = Field(min_length=1, max_length=1024, description="File or folder name.")
    type: str = Field(
        min_length=1,
        max_length=64,
        description='"folder", "json", "markdown", "text", …, or "file" to derive it from the name.',
    )
    content: Any = Field(default=None, description="A JSON value for type json, text for every other file.")
    url: Url | None = Field(
        default=None, description="Where a browser opens the node; hits of its text have it. Null: nowhere."
    )
    metadata: Metadata | None = Field(
        default=None,
        description="Values to filter searches by: strings, numbers, booleans and lists of strings, at most 16 KiB, "
        "or 32 KiB with those of its folders. A time is a string of RFC 3339. What a folder contains has its values, "
        "unless it has its own. Null: none.",
        examples=[{"team": "red", "year": 2024}],
    )
    acl: Acl | None = Field(default=None, description=ACL_DESCRIPTION, examples=[["group:hr", "!user:ann@example.org"]])


class NodePatch(BaseModel):
    """Changes to a node; omitted fields stay as they are."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "handbook.md"}]})

    parent_id: str | None = Field(
        default=None, max_length=200, description="Id of the new enclosing folder; null: the project's root."
    )
    name: str | None = Field(default=None, min_length=1, max_length=1024, description="New name; null: unchanged.")
    content: Any = Field(default=None, description="New content: a JSON value for a json node, text for other files.")
    url: Url | None = Field(default=None, description="Where a browser opens the node; null: nowhere.")
    metadata: Metadata | None = Field(
        default=None,
        description="New values to filter searches by, in place of all earlier ones of the node; null: none.",
        examples=[{"team": "red"}],
    )
    acl: Acl | None = Field(
        default=None,
        description="New list of who may read, in place of that of the node; null: none of its own.",
        examples=[["group:hr"]],
    )


class Node(BaseModel):
    """A node of a project's content tree, a folder or a file."""

    id: str = Field(description="Id within the project.", examples=["file-data-68abc"])
    project_id: fields.ProjectId
    parent_id: str | None = Field(
        description="Id of the enclosing folder; null at the top level.", examples=["folder-001"]
    )
    id_path: str = Field(description="Path of ids from the project's root.", examples=["/folder-001/file-data-68abc"])
    name: str = Field(description="File or folder name.", examples=["data.json"])
    type: str = Field(description='"folder", "json", "markdown", "text", …', examples=["json"])
    size: int = Field(description="Size of the content in bytes; 0 for folders.", examples=[26])
    version: int = Field(description="Counts the changes of the node, from 1.", examples=[1])
    created_at: fields.CreatedAt
    updated_at: fields.UpdatedAt
    url: str | None = Field(
        description="Where a browser opens the node; null if it is not known.",
        examples=["https://wiki.example/handbook"],
    )
    metadata: dict[str, Any] | None = Field(
        default=None,
        description="Its own values to filter searches by; null if it has none. Not in listings.",
        examples=[{"team": "red", "year": 2024}],
    )
    acl: list[str] | None = Field(
        default=None,
        description="Its own list of who may read it; null if it has none. Not in listings.",
        examples=[["group:hr"]],
    )
    withheld: bool = Field(
        default=False,
        description="Whether the content is null because no list admits the caller. Not in listings.",
        examples=[False],
    )
    content: Any = Field(
        default=None,
        description="A JSON value for type json, text for other files, null for folders. Not in listings.",
        examples=[{"config": {"port": 80}}],
    )


class NodeDeleted(BaseModel):
    """A node that is deleted, with everything below it."""

    id: str = Field(description="Id of the node.", examples=["file-data-68abc"])
    status: Literal["deleted"] = Field(default="deleted", description="Always `deleted`.")


class Refused(StrEnum):
    """Why one file of an upload is not stored. `remedy` is what its sender can do about it."""

    TOO_LARGE = "too_large"
    TOO_MUCH = "too_much"
    TOO_MANY = "too_many"
    UNSUPPORTED_TYPE = "unsupported_type"
    BAD_NAME = "bad_name"
    TOO_DEEP = "too_deep"
    IS_FOLDER = "is_folder"
    NOT_A_FOLDER = "not_a_folder"

    @property
    def remedy(self) -> str:
        """One sentence for the sender of the file: how to solve the problem."""
        return _REMEDIES[self]


_REMEDIES = {
    Refused.TOO_LARGE: "The file is larger than MAX_FILE_BYTES; split it or raise that setting.",
    Refused.TOO_MUCH: "The upload is larger than 20 times MAX_FILE_BYTES; send this file in another upload.",
    Refused.TOO_MANY: "The upload has more than 1,000 files; send this file in another upload.",
    Refused.UNSUPPORTED_TYPE: "Files of this type contain no text; omit the file.",
    Refused.BAD_NAME: "The file's name consists of characters that names cannot contain; rename the file.",
    Refused.TOO_DEEP: "The file would be nested too deep; use fewer levels of folders.",
    Refused.IS_FOLDER: "A folder of that name already exists; rename the file or the folder.",
    Refused.NOT_A_FOLDER: "One of the folders in the file's path already exists as a file; rename one of them.",
}


class Uploaded(BaseModel):
    """The result for one file of an upload. Refusing one does not affect the others."""

    file_id: str | None = Field(
        description="Id of the file's node; null if it was refused.", examples=["0b7e7c52-7d3b-4d0e-8c55-5c1a9f0e2d11"]
    )
    file_name: str = Field(description="Last part of the path.", examples=["setup.md"])
    file_path: str = Field(description="Path below the folder of the upload.", examples=["guide/setup.md"])
    file_extension: str = Field(description="Part after the last dot, in lower case; may be empty.", examples=["md"])
    size: int = Field(description="Size in bytes.", examples=[1830])
    outcome: Literal["created", "updated", "refused"] = Field(
        description="updated: the file is a new version of an existing file of that name."
    )
    reason: Refused | None = Field(default=None, description="Why the file was refused; null if it was not.")
    message: str | None = Field(
        default=None, description="What its sender can do about a refusal; null if there was none."
    )


class Upload(BaseModel):
    """The files of an upload."""

    items: list[Uploaded] = Field(description="The files, in the order in which they were sent.")
    tool_id: UUID | None = Field(
        default=None,
        description="Tool over the folder, if `index` asked for one.",
        examples=["7b0c1e5e-2f63-4c52-9f3a-0d6f3f0f4a11"],
    )
    index_error: Note | None = Field(
        default=None,
        description="Why there is no tool although `index` asked for one. The files are stored.",
        examples=[None],
    )
