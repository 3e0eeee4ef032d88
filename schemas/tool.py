"""Search tools, their tasks and their files as the API accepts and returns them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, Literal, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from schemas.source import AnySource, ChunkSettings, EmbedderProfile
from schemas.status import FileStatus, Reason, TaskKind, TaskStatus

Item = TypeVar("Item")

#: Kinds of files that are excluded unless a tool's `config.keep` names them.
IgnoredKind = Literal["vcs", "dependencies", "caches", "locks", "minified", "generated", "editors", "binaries"]

#: Seconds of each unit of a duration.
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _seconds(value: object) -> object:
    """Convert a duration such as "15m" to seconds; any other value is returned as it is."""
    if isinstance(value, str) and value[:-1].isdecimal() and value[-1] in _UNIT_SECONDS:
        return int(value[:-1]) * _UNIT_SECONDS[value[-1]]
    return value


class ToolConfig(BaseModel):
    """How a tool's folder is indexed. Omitted values come from the installation's settings."""

    model_config = ConfigDict(extra="forbid")

    embedding_model: str | None = Field(
        default=None, min_length=1, max_length=200, description="Embedding model; null: DEFAULT_EMBEDDING_MODEL."
    )
    dimensions: int | None = Field(
        default=None, ge=1, le=10_752, description="Dimensions of the vectors; null: the model's default."
    )
    chunk_size: int | None = Field(default=None, ge=16, le=100_000, description="Maximum tokens per chunk.")
    chunk_overlap: int | None = Field(
        default=None, ge=0, le=50_000, description="Tokens that neighbouring chunks share."
    )
    include: list[str] = Field(
        default_factory=list, description="Patterns of files to index, as in .gitignore; empty: every file."
    )
    exclude: list[str] = Field(default_factory=list, description="Patterns of files to leave out, as in .gitignore.")
    types: list[str] = Field(default_factory=list, description="File types to index; empty: every type.")
    use_ignore_files: bool = Field(
        default=True,
        description="Apply .gitignore, .ignore, .cursorignore and .foldexignore, each below its directory.",
    )
    keep: list[IgnoredKind] = Field(
        default_factory=list, description="Kinds of files to index although they are left out by default."
    )
    min_token_count: int = Field(
        default=0, ge=0, description="Files with fewer tokens (cl100k_base) are found by keywords only."
    )
    max_token_count: int | None = Field(
        default=None, ge=0, description="Files with more tokens are found by keywords only; null: no maximum."
    )
    auto_reindex: bool = Field(
        default=False, description="Start a run after uploads to the folder and edits of its nodes."
    )
    watch: bool = Field(default=False, description="Start a run when the folder changes; not for S3.")
    every: Annotated[int | None, BeforeValidator(_seconds)] = Field(
        default=None, ge=10, le=31_622_400, description='Seconds between two runs, or "30s", "15m", "6h", "1d".'
    )


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

    project_id: str = Field(
        min_length=1, max_length=200, description="Project that owns the tool; it is created if new."
    )
    node_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Node to index. Send either `node_id` or `source`."
    )
    json_pointer: str | None = Field(
        default=None, max_length=10_000, description="Index only this part of the JSON node `node_id`."
    )
    source: AnySource | None = Field(default=None, description="Folder or bucket to index.")
    name: str | None = Field(
        default=None, min_length=1, max_length=200, description="Name of the tool; null: the name of the folder."
    )
    config: ToolConfig = Field(default_factory=ToolConfig)

    @model_validator(mode="after")
    def one_target(self) -> Self:
        """Check that the tool has exactly one target."""
        if (self.node_id is None) == (self.source is None):
            raise ValueError("send either node_id or source")
        if self.json_pointer is not None and self.node_id is None:
            raise ValueError("json_pointer needs a node_id; send both")
        return self


class ToolPatch(BaseModel):
    """Changes to a tool; omitted fields stay as they are.

    This also holds within `config`, where null means the installation's setting.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"name": "handbook"}, {"config": {"embedding_model": "openai/text-embedding-3-small"}}]
        },
    )

    name: str | None = Field(default=None, min_length=1, max_length=200, description="New name.")
    config: ToolConfig | None = Field(default=None, description="Fields of the config to change.")


class Reindex(BaseModel):
    """How to index again."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{}, {"full": True}, {"allow_removals": True}]}
    )

    full: bool = Field(default=False, description="Read and chunk every file again; only new text is embedded.")
    allow_removals: bool = Field(
        default=False, description="Remove vanished files even if they are most of the folder."
    )


class IndexSettings(BaseModel):
    """Everything besides the source that decides whether two tools share an index."""

    model_config = ConfigDict(frozen=True)

    embedder: EmbedderProfile
    explicit_dimensions: bool = False
    chunks: ChunkSettings
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    use_ignore_files: bool = True
    keep: tuple[IgnoredKind, ...] = ()
    max_file_bytes: int
    min_token_count: int = 0
    max_token_count: int | None = None
    max_pages: int = 5_000
    max_characters: int = 50_000_000

    @property
    def identity(self) -> dict[str, object]:
        """The values to hash. Later fields are omitted at their defaults, so that older indexes keep their hash."""
        fields = type(self).model_fields
        return self.model_dump(exclude={name for name in _LATER_FIELDS if getattr(self, name) == fields[name].default})

    def embeds(self, tokens: int) -> bool:
        """Whether a file with this many tokens is embedded; both bounds are inclusive."""
        return self.min_token_count <= tokens and (self.max_token_count is None or tokens <= self.max_token_count)

    @property
    def bounded(self) -> bool:
        """Whether a file's token count can decide if it is embedded."""
        return self.min_token_count > 0 or self.max_token_count is not None


#: Fields of `IndexSettings` that older indexes do not have.
_LATER_FIELDS = frozenset(
    {"use_ignore_files", "keep", "max_pages", "max_characters", "min_token_count", "max_token_count"}
)


class IndexInfo(BaseModel):
    """The part of an index that a tool shows."""

    index_id: UUID
    model: str
    dimensions: int


class Updating(BaseModel):
    """The index that is being built for a changed config, to replace the present one."""

    config: ToolConfig
    namespace: str
    index: IndexInfo
    task_id: UUID
    status: TaskStatus
    progress: float


class Tool(BaseModel):
    """A search tool. `task` is the state of the newest task of its index.

    While `updating` is set, the tool answers from its present index. `update_error` says why the last change failed.
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
    """One index task; lists show the newest first. Counts of files and chunks describe the index as it is now.

    `ignored` counts what rules exclude from the folder, by rule: a kind of `config.keep`, `ignore_file`, `exclude`,
    `include` or `types`. An excluded directory counts as one, under the rule's name plus `_directories`.
    """

    tool_id: UUID
    task_id: UUID
    kind: TaskKind
    status: TaskStatus
    namespace: str
    folder_node_id: str | None = Field(
        description="Folder node that is indexed; null for a single file and other sources."
    )
    total_files: int
    indexed_files: int
    skipped_files: int
    failed_files: int
    removed_files: int
    held_removals: int = Field(description="Vanished files that are kept until a reindex with `allow_removals`.")
    ignored: dict[str, int]
    total_chunks: int
    embedded_chunks: int = Field(description="Chunks embedded and paid for in this run.")
    reused_chunks: int = Field(description="Chunks whose vectors were reused in this run.")
    tokens: int = Field(description="Tokens paid for in this run.")
    progress: float = Field(description="Share of the listed bytes that is finished, from 0 to 1.")
    eta_seconds: float | None = Field(description="Estimated seconds until the end; null if unknown.")
    listing: bool = Field(description="Whether the folder is still being listed.")
    rerun: bool = Field(description="Whether another task follows this one.")
    warning: str | None = Field(description="What the task waits for, or what needs a decision.")
    error: str | None = Field(description="Why the task failed.")
    error_code: str | None = Field(description="Stable code of the error.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class File(BaseModel):
    """One file of an index with its outcome.

    `mime`, `is_binary` and `language` come from the content and are null until it is read. `mtime_ms` is the source's
    time of the last change, in milliseconds since 1970. `message` says what happened to this file, `remedy` what its
    owner can do about it. `embedded` is false if the file is found by keywords only, or not at all. `timings` are
    seconds by stage (read, parse, chunk, embed, write). `embedded_chunks` counts the chunks that the newest run paid
    for, even if the file failed afterwards.
    """

    file_id: UUID
    file_node_id: str
    file_path: str
    file_id_path: str
    file_name: str
    file_type: str | None
    size: int
    mtime_ms: int | None
    mime: str | None
    is_binary: bool | None
    language: str | None
    status: FileStatus
    reason: Reason | None
    message: str | None
    remedy: str | None
    stale: bool
    embedded: bool
    chunks: int
    embedded_chunks: int
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
