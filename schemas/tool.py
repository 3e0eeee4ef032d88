"""Search tools, their tasks and their files as the API takes and gives them."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.source import AnySource, ChunkSettings, EmbedderProfile
from schemas.status import FileStatus, Reason, TaskKind, TaskStatus

Item = TypeVar("Item")


class ToolConfig(BaseModel):
    """How a tool's folder is indexed; what is left out comes from the installation's settings."""

    model_config = ConfigDict(extra="forbid")

    embedding_model: str | None = Field(default=None, min_length=1, max_length=200)
    dimensions: int | None = Field(default=None, ge=1, le=10_752)
    chunk_size: int | None = Field(default=None, ge=16, le=100_000, description="Tokens of a chunk, at most.")
    chunk_overlap: int | None = Field(default=None, ge=0, le=50_000, description="Tokens that neighbours share.")
    include: list[str] = Field(default_factory=list, description="Patterns as in .gitignore; none: every file.")
    exclude: list[str] = Field(default_factory=list, description="Patterns as in .gitignore.")
    types: list[str] = Field(default_factory=list, description="File types to index; none: every type.")


class NewTool(BaseModel):
    """A tool over a node of the project, or over another source."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"project_id": "project-1", "node_id": "folder-001"},
                {"project_id": "project-1", "source": {"kind": "local", "path": "/srv/docs"}, "name": "docs"},
                {"project_id": "project-1", "source": {"kind": "s3", "bucket": "docs", "prefix": "handbook/"}},
            ]
        },
    )

    project_id: str = Field(min_length=1, max_length=200)
    node_id: str | None = Field(default=None, min_length=1, max_length=200)
    json_pointer: str | None = Field(default=None, max_length=10_000)
    source: AnySource | None = None
    name: str | None = Field(default=None, min_length=1, max_length=200)
    config: ToolConfig = Field(default_factory=ToolConfig)

    @model_validator(mode="after")
    def one_target(self) -> Self:
        """A tool has exactly one target."""
        if (self.node_id is None) == (self.source is None):
            raise ValueError("give either node_id or source")
        if self.json_pointer is not None and self.node_id is None:
            raise ValueError("json_pointer narrows a node: give node_id as well")
        return self


class ToolPatch(BaseModel):
    """What of a tool is to change; what is left out stays.

    That holds within `config` too; there null means the installation's setting.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"name": "handbook"}, {"config": {"embedding_model": "openai/text-embedding-3-small"}}]
        },
    )

    name: str | None = Field(default=None, min_length=1, max_length=200)
    config: ToolConfig | None = None


class Reindex(BaseModel):
    """How to index again."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{}, {"full": True}, {"allow_removals": True}]}
    )

    full: bool = Field(default=False, description="Read and chunk every file again; only new text is embedded.")
    allow_removals: bool = Field(default=False, description="Believe that most files are gone, if the source says so.")


class IndexSettings(BaseModel):
    """Everything beside the source that decides whether two tools share an index."""

    model_config = ConfigDict(frozen=True)

    embedder: EmbedderProfile
    explicit_dimensions: bool = False
    chunks: ChunkSettings
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    max_file_bytes: int


class IndexInfo(BaseModel):
    """What of an index a tool shows."""

    index_id: UUID
    model: str
    dimensions: int


class Updating(BaseModel):
    """The index that is being built to take the present one's place, for a changed config."""

    config: ToolConfig
    namespace: str
    index: IndexInfo
    task_id: UUID
    status: TaskStatus
    progress: float


class Tool(BaseModel):
    """A search tool; `task` is the state of its index's newest task.

    While `updating` is set the tool answers from its present index; `update_error` says why the last change came to
    nothing.
    """

    tool_id: UUID
    project_id: str
    name: str
    node_id: str | None
    source: AnySource
    config: ToolConfig
    namespace: str
    index: IndexInfo
    task: TaskStatus
    updating: Updating | None
    update_error: str | None
    created_at: datetime
    updated_at: datetime


class Status(BaseModel):
    """One index task, newest first where there are many. Counts of files and chunks describe the index now."""

    tool_id: UUID
    task_id: UUID
    kind: TaskKind
    status: TaskStatus
    namespace: str
    folder_node_id: str | None
    total_files: int
    indexed_files: int
    skipped_files: int
    failed_files: int
    removed_files: int
    held_removals: int
    total_chunks: int
    embedded_chunks: int
    reused_chunks: int
    tokens: int
    progress: float
    eta_seconds: float | None
    listing: bool
    rerun: bool
    warning: str | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class File(BaseModel):
    """One file of an index with its outcome; `message` says what its owner can do about a reason."""

    file_id: UUID
    file_node_id: str
    file_path: str
    file_id_path: str
    file_name: str
    file_type: str | None
    size: int
    status: FileStatus
    reason: Reason | None
    message: str | None
    stale: bool
    chunks: int
    tokens: int
    attempts: int
    timings: dict[str, float]


class FileText(BaseModel):
    """The text of a file, or a part of it."""

    file_id: UUID
    file_path: str
    text: str
    start_line: int
    end_line: int
    start_char: int
    end_char: int


class Listing(BaseModel, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = None
