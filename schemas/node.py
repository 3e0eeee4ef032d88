"""Content nodes as the API takes and gives them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

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

    id: str | None = Field(default=None, min_length=1, max_length=200, pattern=r"^[^/\x00]+$")
    parent_id: str | None = Field(default=None, max_length=200)
    name: str = Field(min_length=1, max_length=1024)
    type: str = Field(min_length=1, max_length=64, description='"folder", "json", "markdown", "text", …')
    content: Any = Field(default=None, description="A JSON value for type json, text for every other file.")


class NodePatch(BaseModel):
    """What of a node is to change; what is left out stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "handbook.md"}]})

    parent_id: str | None = Field(default=None, max_length=200)
    name: str | None = Field(default=None, min_length=1, max_length=1024)
    content: Any = None


class Node(BaseModel):
    """A node; `content` only where a single one is asked for."""

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
