"""Content nodes as the API accepts and returns them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


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

    id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^[^/\x00]+$",
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


class NodePatch(BaseModel):
    """Changes to a node; omitted fields stay as they are."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "handbook.md"}]})

    parent_id: str | None = Field(
        default=None, max_length=200, description="Id of the new enclosing folder; null: the project's root."
    )
    name: str | None = Field(default=None, min_length=1, max_length=1024, description="New name.")
    content: Any = Field(default=None, description="New content: a JSON value for a json node, text for other files.")


class Node(BaseModel):
    """A node. `content` is present only if a single node is requested."""

    id: str
    project_id: str
    parent_id: str | None
    id_path: str
    name: str
    type: str
    size: int
    version: int
    created_at: datetime
    updated_at: datetime
    content: Any = None


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
        """What the file's sender can do, as a sentence."""
        return _REMEDIES[self]


_REMEDIES = {
    Refused.TOO_LARGE: "The file is larger than MAX_FILE_BYTES; split it or raise that setting.",
    Refused.TOO_MUCH: "The upload is larger than MAX_UPLOAD_BYTES; send this file in another upload.",
    Refused.TOO_MANY: "The upload has more than MAX_UPLOAD_FILES files; send this file in another upload.",
    Refused.UNSUPPORTED_TYPE: "Files of this type contain no text; omit the file, or change UPLOAD_REFUSED_TYPES.",
    Refused.BAD_NAME: "The file's name consists of characters that names cannot contain; rename the file.",
    Refused.TOO_DEEP: "The file would be nested too deep; use fewer levels of folders.",
    Refused.IS_FOLDER: "A folder of that name already exists; rename the file or the folder.",
    Refused.NOT_A_FOLDER: "One of the folders in the file's path already exists as a file; rename one of them.",
}


class Uploaded(BaseModel):
    """The result for one file of an upload. `updated`: the file is a new version of an existing file of that name.

    `file_id` is the id of the node. `reason` and `message` say why the file was refused; the others are still stored.
    """

    file_id: str | None
    file_name: str
    file_path: str
    file_extension: str
    size: int
    outcome: Literal["created", "updated", "refused"]
    reason: Refused | None = None
    message: str | None = None


class Upload(BaseModel):
    """The files of an upload, in the order in which they were sent."""

    items: list[Uploaded]
