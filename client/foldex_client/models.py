"""What the service answers, and the objects that calls take.

docs/reference/http.md describes every field. Fields that this version does not know are kept, so a client goes on with
a newer service. Words such as `status` or `reason` are strings, because a newer service may have more of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypedDict, TypeVar

from pydantic import BaseModel, ConfigDict

Item = TypeVar("Item")

Mode = Literal["hybrid", "vector", "keyword"]
Rerank = Literal["none", "boost", "model", "llm"]
TreeSearch = Literal["off", "collapsed", "tree_traversal"]
Refresh = Literal["none", "if_stale", "wait"]


class Model(BaseModel):
    """Base of all models."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)


class Filters(TypedDict, total=False):
    """All filters must match; the values of a list are alternatives."""

    path: str
    file_ids: list[str]
    types: list[str]
    languages: list[str]
    symbols: list[str]
    node_types: list[str]
    scope: str
    json_pointer: str
    level: int
    modified_after: datetime | str
    modified_before: datetime | str


class Context(TypedDict, total=False):
    """Where the caller is working: hits near it rank higher."""

    path: str
    symbol: str


class Page(Model, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = None


class RaptorConfig(Model):
    """How a tree of summaries is built."""

    enabled: bool = False
    max_layers: int = 3
    cluster_method: str = "gmm"
    min_cluster_size: int = 3
    summary_prompt: str | None = None
    summary_num_workers: int = 4
    llm_model: str | None = None
    max_leaves: int = 20_000
    max_tokens: int | None = None


class ToolConfig(Model):
    """How a tool's folder is indexed. Only the fields that are given are sent."""

    embedding_model: str | None = None
    dimensions: int | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    include: list[str] = []
    exclude: list[str] = []
    types: list[str] = []
    use_ignore_files: bool = True
    keep: list[str] = []
    min_token_count: int = 0
    max_token_count: int | None = None
    max_cost_tokens: int | None = None
    auto_reindex: bool = False
    watch: bool = False
    raptor: RaptorConfig | None = None
    every: int | str | None = None
    url_template: str | None = None


class Source(Model):
    """Where a tool's files are. `kind` is nodes, local or s3, and tells which of the other fields are set."""

    kind: str
    node_id: str | None = None
    json_pointer: str | None = None
    path: str | None = None
    bucket: str | None = None
    prefix: str | None = None


class IndexInfo(Model):
    """The part of an index that a tool shows."""

    index_id: str
    model: str
    dimensions: int


class Updating(Model):
    """The index that is being built for a changed config, to replace the present one."""

    config: ToolConfig
    namespace: str
    index: IndexInfo
    task_id: str
    status: str
    progress: float


class Tool(Model):
    """A search tool. `task` is the state of the newest task of its index."""

    tool_id: str
    project_id: str
    name: str
    node_id: str | None
    source: Source
    config: ToolConfig
    namespace: str
    index: IndexInfo
    task: str
    updating: Updating | None
    update_error: str | None
    created_at: datetime
    updated_at: datetime


class Status(Model):
    """One index task. Counts of files and chunks describe the index as it is now."""

    tool_id: str
    task_id: str
    kind: str
    status: str
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

    @property
    def ended(self) -> bool:
        """Whether the task has ended, in whatever way."""
        return self.finished_at is not None


class Placed(Model):
    """What names a file of an index."""

    file_id: str
    file_node_id: str
    file_path: str
    file_id_path: str


class File(Placed):
    """One file of an index with its outcome."""

    file_name: str
    file_type: str | None
    size: int
    mtime_ms: int | None
    mime: str | None
    is_binary: bool | None
    language: str | None
    status: str
    reason: str | None
    message: str | None
    remedy: str | None
    stale: bool
    embedded: bool
    chunks: int
    embedded_chunks: int
    tokens: int
    attempts: int
    timings: dict[str, float]


class FileText(Model):
    """The text of a file, or a part of it."""

    file_id: str
    file_path: str
    text: str
    start_line: int
    end_line: int
    start_char: int
    end_char: int


class Piece(Model):
    """A chunk next to a hit, or one that a hit is merged from."""

    chunk_id: str
    chunk_text: str
    chunk_index: int
    start_line: int
    end_line: int
    start_char: int
    end_char: int


class ScoredPiece(Piece):
    """One of the chunks that a file's hit is merged from."""

    score: float


class ListedChunk(Piece):
    """One chunk of a file, as a list shows it."""

    tokens: int
    content_hash: str
    title: str | None
    json_pointer: str | None
    language: str | None
    symbol: str | None
    node_type: str | None
    scope: str | None
    level: int
    page: int | None
    embedded: bool


class FileChunk(Piece, Placed):
    """A chunk with its location and its description."""

    file_type: str | None
    title: str | None
    json_pointer: str | None
    total_chunks: int
    language: str | None
    symbol: str | None
    node_type: str | None
    scope: str | None
    page: int | None = None
    stale: bool


class Around(Model):
    """A chunk with the chunks before and after it, in the file's order."""

    chunk: FileChunk
    before: list[Piece]
    after: list[Piece]


#: What a field holds that the service was not asked for.
_NOT_CHOSEN: Any = None


class Hit(Model):
    """One chunk of an answer. `score` is 0 to 1; `distance` is cosine.

    A field is None if the search chose other `fields`, and so is a field of an option that is not set.
    """

    chunk_id: str = _NOT_CHOSEN
    chunk_text: str = _NOT_CHOSEN
    score: float = _NOT_CHOSEN
    distance: float | None = None
    file_node_id: str = _NOT_CHOSEN
    file_id: str = _NOT_CHOSEN
    file_id_path: str = _NOT_CHOSEN
    file_path: str = _NOT_CHOSEN
    file_name: str = _NOT_CHOSEN
    file_type: str | None = None
    title: str | None = None
    url: str | None = None
    json_pointer: str | None = None
    chunk_index: int = _NOT_CHOSEN
    total_chunks: int = _NOT_CHOSEN
    content_hash: str = _NOT_CHOSEN
    start_line: int = _NOT_CHOSEN
    end_line: int = _NOT_CHOSEN
    start_char: int = _NOT_CHOSEN
    end_char: int = _NOT_CHOSEN
    language: str | None = None
    symbol: str | None = None
    node_type: str | None = None
    scope: str | None = None
    level: int = _NOT_CHOSEN
    page: int | None = None
    embedded: bool = _NOT_CHOSEN
    whole: bool = False
    stale: bool = _NOT_CHOSEN
    matched_queries: list[str] = []
    pieces: list[ScoredPiece] | None = None
    before: list[Piece] | None = None
    after: list[Piece] | None = None
    explain: dict[str, float] | None = None


class TreeHit(Hit):
    """A hit, and the summary that led to it: None unless the query set `tree`."""

    raptor_expanded_from: str | None = None
    raptor_summary_preview: str | None = None


class SummaryHit(Model):
    """A summary that a query found."""

    node_id: str
    level: int
    text: str
    score: float
    file_paths: list[str]


class PlacedHit(Hit):
    """A hit and the tool that found it; None for a file that was read without an index."""

    tool_id: str | None = None


class Coverage(Model):
    """How much of the folder was searched."""

    indexed_files: int
    total_files: int
    stale_files: int | None = None


class Note(Model):
    """Something the caller should know about an answer, such as a part that failed; `code` is stable."""

    code: str
    detail: str


class Step(Model):
    """One step of a search, as shown by `trace`."""

    step: str
    took_ms: float
    found: int | None = None
    detail: str | None = None


class Found(Model):
    """What every answer to a query has."""

    query: str
    mode: str
    total_results: int
    took_ms: float
    coverage: Coverage
    notes: list[Note] = []


class Answer(Found):
    """The hits of a query, best first."""

    trace: list[Step] | None = None
    results: list[TreeHit]
    summaries: list[SummaryHit] = []


class Searched(Model):
    """One tool's part of an answer."""

    tool_id: str
    name: str
    took_ms: float
    total_results: int
    coverage: Coverage
    notes: list[Note]
    trace: list[Step] | None


class AcrossAnswer(Found):
    """The hits of all tools, best first. `notes` name the tools that failed or were too slow."""

    tools: list[Searched]
    results: list[PlacedHit]


class GrepHit(Model):
    """One line with a match. Lines and columns count from 1."""

    file_id_path: str
    file_path: str
    line: int
    column: int
    preview: str
    before: list[str]
    after: list[str]
    end_line: int | None = None


class GrepAnswer(Model):
    """Hits by path and line. `truncated`: there may be more."""

    hits: list[GrepHit]
    truncated: bool
    coverage: Coverage
    notes: list[Note] = []


class Use(Placed):
    """A use of a name in code. `scope` is the definition that uses it."""

    name: str
    kind: str
    scope: str | None
    start_line: int
    end_line: int


class Symbol(Use):
    """A definition. `scope` names the enclosing definitions."""

    signature: str


class Call(Model):
    """A definition that calls another or is called by another, `depth` calls away."""

    name: str | None
    kind: str | None
    scope: str | None
    file_id: str | None
    file_path: str | None
    start_line: int | None
    end_line: int | None
    signature: str | None
    line: int
    depth: int
    via: str
    definitions: int
    ambiguous: bool


class CallGraph(Model):
    """Callers or callees of a name, nearest first. `truncated`: there are more."""

    name: str
    definitions: int
    ambiguous: bool
    items: list[Call]
    truncated: bool


class ModelCheck(Model):
    """Whether a model answered one tiny request, at most a minute ago."""

    ok: bool
    took_ms: float
    code: str | None = None
    detail: str | None = None


class ModelInfo(Model):
    """A model that is configured or allowed. Prices are US dollars; see the HTTP reference for their units."""

    model: str
    provider: str | None
    kind: str
    default: bool
    dimensions: int | None
    max_input_tokens: int | None
    max_inputs: int | None
    max_request_tokens: int | None
    max_output_tokens: int | None
    input_price: float | None
    output_price: float | None
    query_price: float | None
    check: ModelCheck | None = None


class Models(Model):
    """All models that an installation offers."""

    items: list[ModelInfo]


class Node(Model):
    """A node of a project's content tree, a folder or a file."""

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
    url: str | None = None
    content: Any = None


class Uploaded(Model):
    """The result for one file of an upload: created, updated or refused."""

    file_id: str | None
    file_name: str
    file_path: str
    file_extension: str
    size: int
    outcome: str
    reason: str | None = None
    message: str | None = None


class Upload(Model):
    """The files of an upload, in the order in which they were sent."""

    items: list[Uploaded]
    tool_id: str | None = None
    index_error: Note | None = None


class TreeLevel(Model):
    """One level of a tree of summaries."""

    level: int
    count: int


class RaptorStatus(Model):
    """The tree of summaries that answers, and its newest build."""

    has_index: bool
    total_nodes: int
    leaf_nodes: int
    summary_nodes: int
    max_level: int
    levels: list[int]
    nodes_by_level: list[TreeLevel]
    last_build_time: datetime | None
    indexing_status: str
    progress: float
    stale: int
    skipped: dict[str, int]
    tokens_in: int
    tokens_out: int
    requests: int
    method: str | None
    model: str | None
    warning: str | None
    error: str | None
    error_code: str | None


class RaptorEstimate(Model):
    """What a build of a tree of summaries would cost. `usd` is None if the price is not known."""

    leaves: int
    summaries: int
    requests: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    model: str
    method: str
    fits: bool


class TreeNode(Model):
    """A summary, or at level 0 a chunk."""

    node_id: str
    level: int
    text: str
    children_ids: list[str]
    parent_ids: list[str]
    file_paths: list[str]
