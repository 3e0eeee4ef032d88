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
LeftOut = Literal["vcs", "dependencies", "caches", "locks", "minified", "generated", "editors", "binaries"]

_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _seconds(value: object) -> object:
    """Convert a duration such as "15m" to seconds; any other value is returned as it is."""
    if isinstance(value, str) and value[:-1].isdecimal() and value[-1] in _SPANS:
        return int(value[:-1]) * _SPANS[value[-1]]
    return value


class ToolConfig(BaseModel):
    """How a tool's folder is indexed. Omitted values come from the installation's settings."""

    model_config = ConfigDict(extra="forbid")

    embedding_model: str | None = Field(default=None, min_length=1, max_length=200)
    dimensions: int | None = Field(default=None, ge=1, le=10_752)
    chunk_size: int | None = Field(default=None, ge=16, le=100_000, description="Tokens of a chunk, at most.")
    chunk_overlap: int | None = Field(default=None, ge=0, le=50_000, description="Tokens that neighbours share.")
    include: list[str] = Field(default_factory=list, description="Patterns as in .gitignore; none: every file.")
    exclude: list[str] = Field(default_factory=list, description="Patterns as in .gitignore.")
    types: list[str] = Field(default_factory=list, description="File types to index; none: every type.")
    use_ignore_files: bool = Field(
        default=True, description="Obey .gitignore, .ignore, .cursorignore and .foldexignore, each below its directory."
    )
    keep: list[LeftOut] = Field(
        default_factory=list, description="Kinds of files to index all the same that are left out by default."
    )
    min_token_count: int = Field(
        default=0, ge=0, description="Files of fewer tokens (cl100k_base) are found by their words only."
    )
    max_token_count: int | None = Field(
        default=None, ge=0, description="Files of more tokens are found by their words only; none: no bound."
    )
    auto_reindex: bool = Field(default=False, description="Uploads and edits of the folder's nodes start a run.")
    watch: bool = Field(default=False, description="What changes in the folder starts a run; not for S3.")
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

    project_id: str = Field(min_length=1, max_length=200)
    node_id: str | None = Field(default=None, min_length=1, max_length=200)
    json_pointer: str | None = Field(default=None, max_length=10_000)
    source: AnySource | None = None
    name: str | None = Field(default=None, min_length=1, max_length=200)
    config: ToolConfig = Field(default_factory=ToolConfig)

    @model_validator(mode="after")
    def one_target(self) -> Self:
        """Check that the tool has exactly one target."""
        if (self.node_id is None) == (self.source is None):
            raise ValueError("give either node_id or source")
        if self.json_pointer is not None and self.node_id is None:
            raise ValueError("json_pointer narrows a node: give node_id as well")
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
    """Everything besides the source that decides whether two tools share an index."""

    model_config = ConfigDict(frozen=True)

    embedder: EmbedderProfile
    explicit_dimensions: bool = False
    chunks: ChunkSettings
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    use_ignore_files: bool = True
    keep: tuple[LeftOut, ...] = ()
    max_file_bytes: int
    min_token_count: int = 0
    max_token_count: int | None = None
    max_pages: int = 5_000
    max_characters: int = 50_000_000

    @property
    def identity(self) -> dict[str, object]:
        """The values to hash. Later fields are omitted at their defaults, so that older indexes keep their hash."""
        fields = type(self).model_fields
        return self.model_dump(exclude={name for name in _LATER if getattr(self, name) == fields[name].default})

    def embeds(self, tokens: int) -> bool:
        """Whether a file with this many tokens is embedded; both bounds are inclusive."""
        return self.min_token_count <= tokens and (self.max_token_count is None or tokens <= self.max_token_count)

    @property
    def bounded(self) -> bool:
        """Whether a file's token count can decide if it is embedded."""
        return self.min_token_count > 0 or self.max_token_count is not None


#: Fields of `IndexSettings` that older indexes do not have.
_LATER = frozenset({"use_ignore_files", "keep", "max_pages", "max_characters", "min_token_count", "max_token_count"})


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
    folder_node_id: str | None
    total_files: int
    indexed_files: int
    skipped_files: int
    failed_files: int
    removed_files: int
    held_removals: int
    ignored: dict[str, int]
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
    error_code: str | None
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
