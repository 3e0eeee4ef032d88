"""Tools, their tasks and their files."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from foldex_client.models.base import Model


class RaptorConfig(Model):
    """Settings for a tree of summaries."""

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
    """Settings for indexing a tool's folder. Only the fields that are given are sent."""

    embedding_model: str | None = None
    dimensions: int | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    granularity: str | None = None
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    types: list[str] = Field(default_factory=list)
    use_ignore_files: bool = True
    keep: list[str] = Field(default_factory=list)
    containers: list[str] = Field(default_factory=list)
    min_token_count: int = 0
    max_token_count: int | None = None
    max_cost_tokens: int | None = None
    auto_reindex: bool = False
    watch: bool = False
    raptor: RaptorConfig | None = None
    every: int | str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    metadata_from: list[str] = Field(default_factory=list)
    rules: list[dict[str, object]] = Field(default_factory=list)
    url_template: str | None = None


class Source(Model):
    """The source of a tool's files. `kind` determines which of the other fields are set."""

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
    precision: str = "float32"
    model_reason: str | None = None
    file_stems: bool = False


class Updating(Model):
    """The index that is being built for a changed config, to replace the present one."""

    config: ToolConfig
    namespace: str
    index: IndexInfo
    task_id: str
    status: str
    progress: float | None


class Tool(Model):
    """A search tool. `task` is the state of the newest task of its index, and `place` says where its source is."""

    tool_id: str
    project_id: str
    name: str
    node_id: str | None
    source: Source
    place: str
    config: ToolConfig
    namespace: str
    index: IndexInfo
    task: str
    updating: Updating | None
    update_error: str | None
    created_at: datetime
    updated_at: datetime


class Status(Model):
    """One index task. Counts of files and chunks describe the index as it is now.

    Fields that describe all files are None for a caller who may not read all of them.
    """

    tool_id: str
    task_id: str
    kind: str
    status: str
    namespace: str
    folder_node_id: str | None
    total_files: int | None
    indexed_files: int | None
    searchable_files: int | None = 0
    skipped_files: int | None
    failed_files: int | None
    removed_files: int | None
    held_removals: int | None
    total_bytes: int | None
    done_bytes: int | None
    ignored: dict[str, int] | None
    total_chunks: int | None
    vector_chunks: int | None = 0
    embedded_chunks: int | None
    reused_chunks: int | None
    tokens: int | None
    progress: float | None
    eta_seconds: float | None
    words_eta_seconds: float | None = None
    listing: bool
    rerun: bool
    warning: str | None
    error: str | None
    error_code: str | None
    created_at: datetime
    started_at: datetime | None
    searchable_at: datetime | None = None
    finished_at: datetime | None

    @property
    def ended(self) -> bool:
        """Whether the task has ended, in whatever way."""
        return self.finished_at is not None

    @property
    def done(self) -> str:
        """`progress` as a part of a sentence, such as `, 68% done`; empty if it is not known."""
        return "" if self.progress is None else f", {self.progress:.0%} done"

    @property
    def finished_files(self) -> int | None:
        """Files that are indexed, skipped or failed."""
        return _sum(self.indexed_files, self.skipped_files, self.failed_files)

    @property
    def words_progress(self) -> float | None:
        """The share of the listed files whose words are searchable, or never will be, from 0 to 1."""
        if self.searchable_at is not None:
            return 1.0
        done = _sum(self.searchable_files, self.skipped_files, self.failed_files)
        if done is None or self.total_files is None:
            return None
        return min(done / self.total_files, 1.0) if self.total_files else 0.0


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


class Placed(Model):
    """The name of a file in an index."""

    file_id: str
    file_node_id: str
    file_path: str
    file_id_path: str


class Properties(Model):
    """Properties that a document states."""

    title: str | None = None
    author: str | None = None
    description: str | None = None
    keywords: str | None = None
    created: str | None = None
    modified: str | None = None


class File(Placed):
    """One file of an index with its outcome."""

    file_name: str
    file_type: str | None
    size: int
    mtime_ms: int | None
    mime: str | None
    is_binary: bool | None
    language: str | None
    properties: Properties | None
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
