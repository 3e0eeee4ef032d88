"""Search tools, their tasks and their files as the API accepts and returns them."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, Self, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    computed_field,
    model_validator,
)

from schemas import fields
from schemas.content.source import AnySource, ChunkSettings, EmbedderProfile, Granularity
from schemas.derived import DerivedConfigs
from schemas.ids import NewId
from schemas.queries.metadata import MetadataConfig
from schemas.reason import FileStatus, Reason
from schemas.status import TaskStatus
from schemas.url import PLACEHOLDERS, UrlTemplate

Item = TypeVar("Item")

#: Kinds of files that are excluded unless a tool's `config.keep` names them.
IgnoredKind = Literal[
    "secrets", "vcs", "worktrees", "dependencies", "caches", "locks", "minified", "generated", "editors", "binaries"
]

#: Containers whose files a tool's `config.containers` indexes as files of their own.
ContainerKind = Literal["archives", "attachments"]

#: The page links to a tool by its name, so a name of nothing but blanks would be no link.
ToolName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

#: The largest bound on tokens: up to it, each integer is exact in any JSON reader.
MAX_TOKENS = 1 << 53

#: Seconds of each unit of a duration.
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _seconds(value: object) -> object:
    """Convert a duration such as "15m" to seconds; any other value is returned as it is."""
    if isinstance(value, str) and value[:-1].isdecimal() and value[-1] in _UNIT_SECONDS:
        return int(value[:-1]) * _UNIT_SECONDS[value[-1]]
    return value


def encodable(text: str) -> str:
    """The text. Raises `ValueError` for half of a surrogate pair, which JSON can express and UTF-8 cannot."""
    text.encode()
    return text


#: A string that can be stored.
Encodable = Annotated[str, AfterValidator(encodable)]
#: A type of files. Names of types are shorter.
TypeName = Annotated[Encodable, StringConstraints(max_length=100)]


class ChunksConfig(MetadataConfig):
    """Settings for chunking, embedding and following a tool's folder."""

    model_config = ConfigDict(extra="forbid")

    embedding_model: str | None = Field(
        default=None, min_length=1, max_length=200, description="Embedding model; null: DEFAULT_EMBEDDING_MODEL."
    )
    dimensions: int | None = Field(
        default=None, ge=1, le=10_752, description="Dimensions of the vectors; null: the model's default."
    )
    chunk_size: int | None = Field(
        default=None, ge=16, le=100_000, description="Maximum tokens per chunk; null: CHUNK_SIZE_TOKENS."
    )
    chunk_overlap: int | None = Field(
        default=None,
        ge=0,
        le=50_000,
        description="Tokens that neighbouring chunks share, at most half of `chunk_size`; null: CHUNK_OVERLAP_TOKENS.",
    )
    granularity: Granularity | None = Field(
        default=None,
        description='`"definition"`: each definition, section or container that is not small is a chunk. `"packed"`: '
        "neighbours are joined up to `chunk_size`. null: `definition`.",
    )
    include: list[Encodable] = Field(
        default_factory=list,
        description="Patterns of files to index, as in .gitignore; empty: every file.",
        examples=[["docs/", "*.md"]],
    )
    exclude: list[Encodable] = Field(
        default_factory=list, description="Patterns of files to leave out, as in .gitignore.", examples=[["drafts/"]]
    )
    types: list[TypeName] = Field(
        default_factory=list, description="File types to index; empty: every type.", examples=[["markdown", "pdf"]]
    )
    use_ignore_files: bool = Field(
        default=True,
        description="Apply .gitignore, .ignore, .cursorignore and .foldexignore, and what else git ignores.",
    )
    keep: list[IgnoredKind] = Field(
        default_factory=list,
        description="Kinds of files to index although they are left out by default.",
        examples=[["generated"]],
    )
    containers: list[ContainerKind] = Field(
        default_factory=list,
        description='Files whose content is indexed as files of its own: `"archives"` (.zip, .tar, .tar.gz, .tar.bz2, '
        '.tar.xz), `"attachments"` of .eml and .msg. Each run opens them again. Empty: none.',
        examples=[["archives"]],
    )
    min_token_count: int = Field(
        default=0,
        ge=0,
        le=MAX_TOKENS,
        description="Files with fewer tokens (cl100k_base) are found by keywords only; 0: no minimum.",
    )
    max_token_count: int | None = Field(
        default=None,
        ge=0,
        le=MAX_TOKENS,
        description="Files with more tokens are found by keywords only; null: no maximum.",
    )
    max_cost_tokens: int | None = Field(
        default=None, ge=0, le=MAX_TOKENS, description="Maximum tokens that a run pays for; null: no limit."
    )
    auto_reindex: bool = Field(default=False, description="Start a run after uploads and edits of the folder's nodes.")
    watch: bool = Field(
        default=False,
        description="Start a run when the folder changes; S3 needs a queue of events: S3_EVENTS_QUEUE_URL.",
    )
    every: Annotated[int | None, BeforeValidator(_seconds)] = Field(
        default=None,
        ge=10,
        le=31_622_400,
        description='Seconds between two runs, or "30s", "15m", "6h", "1d"; null: only on request.',
    )
    url_template: UrlTemplate | None = Field(
        default=None,
        description="Address of a hit on the web, for files whose node has no `url`; null: none. It may hold "
        + ", ".join(f"`{{{name}}}`" for name in PLACEHOLDERS)
        + ".",
    )


class ToolConfig(DerivedConfigs, ChunksConfig):
    """Settings for indexing a tool's folder. Omitted values come from the installation's settings."""


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

    project_id: NewId = Field(
        min_length=1, max_length=200, description="Project that owns the tool; it is created if new."
    )
    node_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Node to index. Send either `node_id` or `source`."
    )
    json_pointer: str | None = Field(
        default=None, max_length=10_000, description="Index only this part of the JSON node `node_id`; null: all of it."
    )
    source: AnySource | None = Field(
        default=None, description="Folder or bucket to index. Send either `node_id` or `source`."
    )
    name: ToolName | None = Field(default=None, description="Name of the tool; null: the name of the folder.")
    reuse: bool = Field(
        default=False,
        description="If the project has a tool over the same source, reindex that and answer with it, unchanged.",
        examples=[False],
    )
    dry_run: bool = Field(
        default=False, description="Create nothing; answer 200 with an estimate of the cost.", examples=[False]
    )
    config: ToolConfig = Field(default_factory=ToolConfig, description="How to index it; default: as the settings say.")

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

    name: ToolName | None = Field(default=None, description="New name; null: unchanged.")
    config: ToolConfig | None = Field(default=None, description="Fields of the config to change; null: none.")


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
    containers: tuple[ContainerKind, ...] = ()
    sidecars: bool = False
    max_file_bytes: int
    min_token_count: int = 0
    max_token_count: int | None = None
    max_pages: int = 5_000
    max_characters: int = 50_000_000
    #: Whether the stem of its file stands in front of the embedded text of code.
    file_stems: bool = False
    #: Why the embedding model was chosen for the folder; None if it was named. It makes no other index.
    model_reason: str | None = None

    @property
    def identity(self) -> dict[str, object]:
        """The values to hash. Later fields are omitted at their defaults, so that older indexes keep their hash."""
        fields = type(self).model_fields
        omitted = {name: True for name in _LATER_FIELDS if getattr(self, name) == fields[name].default}
        chunks = {"granularity": self.chunks.granularity == ChunkSettings().granularity}
        return self.model_dump(exclude={**omitted, "chunks": chunks, "model_reason": True})

    def embeds(self, tokens: int) -> bool:
        """Whether a file with this many tokens is embedded; both bounds are inclusive."""
        return self.min_token_count <= tokens and (self.max_token_count is None or tokens <= self.max_token_count)

    @property
    def bounded(self) -> bool:
        """Whether a file's token count can decide if it is embedded."""
        return self.min_token_count > 0 or self.max_token_count is not None


#: Fields of `IndexSettings` that older indexes do not have.
_LATER_FIELDS = frozenset({"use_ignore_files", "keep", "containers", "sidecars", "max_pages", "max_characters"})
_LATER_FIELDS |= {"min_token_count", "max_token_count", "file_stems"}


class IndexInfo(BaseModel):
    """The part of an index that a tool shows."""

    index_id: UUID = Field(description="Id of the index.", examples=["e1f5d7c3-0b8a-4f6e-9d21-7a3c5b9e8f10"])
    model: str = Field(description="Embedding model of the index.", examples=["local/all-minilm-l6-v2"])
    model_reason: fields.Covering[str] = Field(
        default=None,
        description="Why this model was chosen for the folder; null: it was named, or is the default.",
        examples=["87% of the text in a sample of its files is in other languages than English."],
    )
    dimensions: int = Field(description="Dimensions of its vectors.", examples=[384])
    precision: str = Field(description="`int8` or `float32`: how the model computes them.", examples=["int8"])
    file_stems: bool = Field(
        description="Whether code is embedded with the name of its file in front; `reindex` with `full` and "
        "`renew_text` makes it so.",
        examples=[True],
    )


class Updating(BaseModel):
    """The index that is being built for a changed config, to replace the present one."""

    config: ToolConfig = Field(description="The changed config.")
    namespace: fields.Namespace
    index: IndexInfo = Field(description="The index that is being built.")
    task_id: fields.TaskId
    status: TaskStatus = Field(description="State of the task that builds it.")
    progress: fields.Covering[float] = Field(
        description="Share of the listed bytes that is finished, from 0 to 1; null for a caller who may not read all "
        "files.",
        examples=[0.42],
    )


class Tool(BaseModel):
    """A search tool. While `updating` is set, it answers from its present index."""

    tool_id: fields.ToolId
    project_id: fields.ProjectId
    name: str = Field(description="Name of the tool.", examples=["docs"])
    node_id: str | None = Field(description="Node that is indexed; null for other sources.", examples=["folder-001"])
    source: AnySource = Field(description="Folder or bucket that is indexed.")
    config: ToolConfig = Field(description="How the folder is indexed.")
    namespace: fields.Namespace
    index: IndexInfo = Field(description="The index from which the tool answers.")
    task: TaskStatus = Field(description="State of the newest task of the index.")
    updating: Updating | None = Field(
        description="Index that is being built for a changed config or a renewal; null if there is none.",
        examples=[None],
    )
    update_error: fields.Covering[str] = Field(
        description="Why the last change of the config, or renewal, failed; null if it did not.", examples=[None]
    )
    created_at: fields.CreatedAt
    updated_at: fields.UpdatedAt
    #: Whether some callers may not read all files.
    may_hide: Annotated[bool, fields.HIDDEN] = False

    @computed_field(description="Where the source is, whatever its kind.", examples=["/srv/docs"])  # type: ignore[prop-decorator] # mypy knows no decorated properties
    @property
    def place(self) -> str:
        """The place of the source: a path, the address of a bucket, or a node."""
        return self.source.shown_place


class Properties(BaseModel):
    """Properties that a document states. Each is null if it states none."""

    title: str | None = Field(None, description="Stated title, besides the headings.", examples=["Tides"])
    author: str | None = Field(None, description="Authors, or the sender of a mail.", examples=["Ada Lovelace"])
    description: str | None = Field(None, description="What the document is about.", examples=["When the sea ebbs."])
    keywords: str | None = Field(None, description="Keywords, tags and categories.", examples=["sea, moon"])
    created: str | None = Field(None, description="Year, month or day of its creation.", examples=["2026-03-01"])
    modified: str | None = Field(None, description="Year, month or day of its last change.", examples=["2026-04"])


class File(BaseModel):
    """One file of an index with its outcome."""

    file_id: fields.FileId
    file_node_id: fields.FileNodeId
    file_path: fields.FilePath
    file_id_path: fields.FileIdPath
    file_name: fields.FileName
    file_type: fields.FileType
    size: int = Field(description="Size in bytes.", examples=[214])
    mtime_ms: int | None = Field(
        description="The source's time of the last change, in milliseconds since 1970; null if it tells none.",
        examples=[1795167000000],
    )
    mime: str | None = Field(description="MIME type by content; null until it is read.", examples=["application/json"])
    is_binary: bool | None = Field(description="Whether it is binary; null until it is read.", examples=[False])
    language: fields.Language
    properties: Properties | None = Field(
        description="What the document says of itself, found by keywords in all its chunks; null if it states nothing."
    )
    status: FileStatus = Field(description="Outcome of the file.", examples=["indexed"])
    reason: Reason | None = Field(description="Why it is not indexed; null if it is.", examples=[None])
    message: str | None = Field(
        description="What happened to this file, or what is indexed of it with limits; null if it is indexed in full.",
        examples=[None],
    )
    remedy: str | None = Field(description="What the file's owner can do about it; null if nothing.", examples=[None])
    stale: fields.IsStale
    embedded: bool = Field(
        description="Whether the file is found by meaning; if not, by keywords only, or not at all.", examples=[True]
    )
    chunks: int = Field(description="Chunks of the file that are searchable.", examples=[2])
    embedded_chunks: int = Field(
        description="Chunks that the newest run paid for, even if the file failed afterwards.", examples=[2]
    )
    tokens: int = Field(description="Tokens of the file's searchable chunks.", examples=[96])
    attempts: int = Field(description="Times that a worker began the file since it last changed.", examples=[1])
    timings: dict[str, float] = Field(
        description="Seconds by stage: read, parse, chunk, embed, write.", examples=[{"read": 0.001, "parse": 0.002}]
    )


class FileText(BaseModel):
    """The text of a file, or a part of it."""

    file_id: fields.FileId
    file_path: fields.FilePath
    text: str = Field(description="The requested text.", examples=['"auth": {\n  "type": "JWT"\n}'])
    start_line: fields.StartLine
    end_line: fields.EndLine
    start_char: fields.StartChar
    end_char: fields.EndChar


class Listing(BaseModel, Generic[Item]):
    """A page of a list."""

    # a generic model's docstring does not reach the schemas of its parameters
    model_config = ConfigDict(json_schema_extra={"description": "A page of a list."})

    items: list[Item] = Field(description="The items of this page, in the order of the list.")
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` for the next page; null on the last page."
    )


class ToolDeleted(BaseModel):
    """A tool that is being deleted. It no longer answers; its vectors and rows go in the background."""

    tool_id: fields.ToolId
    status: Literal["deleting"] = Field(default="deleting", description="Always `deleting`.")


class ProjectDeleted(BaseModel):
    """A project that is being deleted. Its contents go in the background."""

    project_id: fields.ProjectId
    status: Literal["deleting"] = Field(default="deleting", description="Always `deleting`.")
