"""States of tasks. SQL CHECK constraints repeat these values."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from schemas import fields


class TaskStatus(StrEnum):
    """`pending → indexing → ready | error | cancelled`."""

    PENDING = "pending"
    INDEXING = "indexing"
    READY = "ready"
    ERROR = "error"
    CANCELLED = "cancelled"


class TaskKind(StrEnum):
    """Why a task was started."""

    CREATE = "create"
    REINDEX = "reindex"
    RETRY = "retry"
    UPDATE = "update"


class Status(BaseModel):
    """One index task; lists show the newest first. Counts of files and chunks describe the index as it is now.

    Fields that describe all files, such as counts, `warning` and `error`, are null for a caller who may not read all.
    """

    tool_id: fields.ToolId
    task_id: fields.TaskId
    kind: TaskKind = Field(description="Why the task was started.")
    status: TaskStatus = Field(description="State of the task.", examples=["indexing"])
    namespace: fields.Namespace
    folder_node_id: str | None = Field(
        description="Folder node that is indexed; null for a single file and other sources.", examples=["folder-001"]
    )
    total_files: fields.Covering[int] = Field(
        description="Files of the folder that were listed so far.", examples=[900]
    )
    indexed_files: fields.Covering[int] = Field(
        description="Files that are searchable, with all their vectors.", examples=[612]
    )
    searchable_files: fields.Covering[int] = Field(
        description="Files whose words are searchable: those in `indexed_files`, those whose vectors follow, and, once "
        "the run has ended, failed ones that lack nothing but vectors.",
        examples=[892],
    )
    skipped_files: fields.Covering[int] = Field(
        description="Files that are not indexed by design, such as binaries.", examples=[8]
    )
    failed_files: fields.Covering[int] = Field(
        description="Files that could not be indexed and are worth a retry.", examples=[0]
    )
    removed_files: fields.Covering[int] = Field(
        description="Vanished files that this task removed from the index.", examples=[0]
    )
    held_removals: fields.Covering[int] = Field(
        description="Vanished files that are kept until a reindex with `allow_removals`.", examples=[0]
    )
    total_bytes: fields.Covering[int] = Field(description="Bytes of the files in `total_files`.", examples=[48200000])
    done_bytes: fields.Covering[int] = Field(
        description="Bytes of the files that are indexed, skipped or failed, out of `total_bytes`.", examples=[32700000]
    )
    ignored: fields.Covering[dict[str, int]] = Field(
        description="Files that rules exclude, by rule: a kind of `config.keep`, `ignore_file`, `exclude`, `include` "
        "or `types`. An excluded directory counts as one, under the rule's name plus `_directories`.",
        examples=[{"binaries": 3, "vcs_directories": 1}],
    )
    total_chunks: fields.Covering[int] = Field(description="Chunks that are searchable.", examples=[7344])
    vector_chunks: fields.Covering[int] = Field(
        description="Chunks of `total_chunks` that have their vector; words alone find the others.", examples=[7344]
    )
    embedded_chunks: fields.Covering[int] = Field(
        description="Chunks embedded and paid for in this run.", examples=[7100]
    )
    reused_chunks: fields.Covering[int] = Field(
        description="Chunks whose vectors were reused in this run.", examples=[244]
    )
    tokens: fields.Covering[int] = Field(description="Tokens paid for in this run.", examples=[1805000])
    progress: fields.Covering[float] = Field(
        description="Share of the listed bytes that is finished, from 0 to 1.", examples=[0.68]
    )
    eta_seconds: fields.Covering[float] = Field(
        description="Estimated seconds until all that is listed so far is done; null before the first file is done.",
        examples=[41.5],
    )
    words_eta_seconds: fields.Covering[float] = Field(
        description="Estimated seconds until the words of all files listed so far are searchable; null before the "
        "first file is, and once all are.",
        examples=[None],
    )
    listing: bool = Field(description="Whether the folder is still being listed.")
    rerun: bool = Field(description="Whether another task follows this one.")
    warning: fields.Covering[str] = Field(
        description="What the task waits for, what needs a decision, what in `config` matches nothing, that texts were "
        "longer than the model takes, that the run reached `max_cost_tokens`, or why a call did not renew the tool.",
        examples=[None],
    )
    error: fields.Covering[str] = Field(
        description="Why the task failed; null unless `status` is error.", examples=[None]
    )
    error_code: fields.Covering[str] = Field(description="Stable code of the error.", examples=[None])
    created_at: fields.CreatedAt
    started_at: datetime | None = Field(
        description="Time when a worker began; null before.", examples=["2026-11-20T09:30:01Z"]
    )
    searchable_at: datetime | None = Field(
        description="Time when the words of all files were searchable; null before.", examples=["2026-11-20T09:30:09Z"]
    )
    finished_at: datetime | None = Field(description="Time of the end; null before.", examples=[None])
