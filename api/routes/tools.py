"""Creates, lists and deletes search tools, and shows their tasks and files."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from api.http.dependencies import (
    CallerDep,
    Cursor,
    IndexDep,
    Limit,
    LookupCachesDep,
    ResourcesDep,
    ToolDep,
    ToolId,
    from_cursor,
    needs_space,
    of_tool,
    to_cursor,
)
from api.http.described_errors import raises
from api.routes.estimates import estimate_of
from api.search.text.file_text import file_text
from schemas.errors import (
    EmbeddingUnavailable,
    EstimateBusy,
    FolderGone,
    Invalid,
    LlmNotConfigured,
    ModelNotAllowed,
    ModelRefused,
    NotFound,
    SourceRefused,
    SourceUnavailable,
)
from schemas.estimate import Estimate
from schemas.search import MAX_NAMES
from schemas.source import AnySource, NodesSource
from schemas.status import FileStatus, Reason
from schemas.tool import (
    File,
    FileText,
    IndexInfo,
    IndexSettings,
    Listing,
    NewTool,
    Status,
    Tool,
    ToolConfig,
    ToolDeleted,
    Updating,
)
from worker import app as queue
from worker.ignore import Rules
from worker.resources import Resources, chunk_settings, keyword_index, store_name
from worker.sources.registry import target_of
from worker.state.index import files, tasks, tools
from worker.state.index.tools import NewIndex
from worker.tree.models import LlmOptions, model_of

router = APIRouter(prefix="/api/tools/search", tags=["search tools"])

#: Maximum characters of a pattern.
MAX_PATTERN_CHARACTERS = 4096
#: Minimum progress, 0 to 1, from which the remaining time can be estimated.
MIN_ETA_PROGRESS = 0.02

#: What a tool's source and config may be refused for.
CONFIG_ERRORS = (
    FolderGone,
    SourceRefused,
    SourceUnavailable,
    ModelNotAllowed,
    ModelRefused,
    EmbeddingUnavailable,
    LlmNotConfigured,
)

FileId = Annotated[
    str,
    Path(
        description="Id of the file, or of its node.",
        examples=["5d8f3f0c-6a1e-5b7d-9c42-1f0e8d7c6b5a"],
    ),
]

OUTSIDE_BOUNDS = "The file's length is outside the tool's token bounds: it is found by its words only."
OUTSIDE_BOUNDS_REMEDY = "Change min_token_count or max_token_count of the tool's config to have it embedded."

OVER_COST = (
    "The run stopped before it passed config.max_cost_tokens ({:,}); raise it, then retry to embed the other files."
)


@router.post(
    "",
    status_code=202,
    response_model=Tool,
    responses={200: {"model": Estimate, "description": "The estimate of a dry run."}},
    dependencies=[needs_space],
    openapi_extra=raises(NotFound, EstimateBusy, *CONFIG_ERRORS),
)
def create_tool(body: NewTool, caller: CallerDep, resources: ResourcesDep) -> Tool | Response:
    """Create a tool over a folder and start indexing it. Poll its status; it can be queried meanwhile.

    With `dry_run` nothing is created or stored: the answer is an estimate of files, tokens and cost.
    """
    caller.check(body.project_id)
    source = body.source or NodesSource(node_id=body.node_id or "", json_pointer=body.json_pointer)
    new_index, name = wanted_index(body.project_id, source, body.config, resources)
    if body.dry_run:
        return JSONResponse(estimate_of(new_index, resources).model_dump(mode="json"))
    tool_id, task_id = tools.create(resources.pool, new_index, name=body.name or name, config=body.config)
    if task_id is not None:
        # in the background: a broker that is down must not delay the answer
        queue.post(partial(queue.send_plan, task_id, tool_id))
    return shown_tool(existing(tools.get(resources.pool, tool_id)))


@router.get("", openapi_extra=raises(NotFound))
def list_tools(
    caller: CallerDep,
    resources: ResourcesDep,
    project_id: Annotated[
        str | None, Query(description="Project whose tools to list; default: all that the key may see.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[Tool]:
    """List the tools of a project, oldest first."""
    if project_id is not None:
        caller.check(project_id)
    after = from_cursor(cursor, datetime.fromisoformat, UUID)
    rows = tools.page(resources.pool, project_id or caller.project_id, after, limit + 1)
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(
        items=[shown_tool(row) for row in rows[:limit]],
        next_cursor=last and to_cursor(last["created_at"].isoformat(), last["tool_id"]),
    )


@router.get("/{tool_id}")
def get_tool(tool: ToolDep) -> Tool:
    """Get a tool with the state of its newest task."""
    return shown_tool(tool)


@router.delete("/{tool_id}", status_code=202)
def delete_tool(tool: ToolDep, resources: ResourcesDep, caches: LookupCachesDep) -> ToolDeleted:
    """Delete a tool, and its index unless another tool shares it."""
    tools.delete(resources.pool, tool["tool_id"])
    caches.forget()
    return ToolDeleted(tool_id=tool["tool_id"])


@router.get("/{tool_id}/status")
def get_status(tool_id: ToolId, caller: CallerDep, resources: ResourcesDep) -> Status:
    """Get the progress of the newest task. File and chunk counts describe the present index."""
    row = of_tool(tasks.newest_of_tool, tool_id, caller, resources)
    return shown_status(row["asked_of"], row)


@router.get("/{tool_id}/tasks")
def list_tasks(tool: ToolDep, resources: ResourcesDep, cursor: Cursor = None, limit: Limit = 100) -> Listing[Status]:
    """List the tasks over the tool's index and over the one being built for it, newest first."""
    before = from_cursor(cursor, datetime.fromisoformat, UUID)
    rows = tasks.history(resources.pool, tool["tool_id"], before, limit + 1)
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(
        items=[shown_status(tool["tool_id"], row) for row in rows[:limit]],
        next_cursor=last and to_cursor(last["created_at"].isoformat(), last["id"]),
    )


@router.get("/{tool_id}/files")
def list_files(
    tool: ToolDep,
    resources: ResourcesDep,
    status: Annotated[FileStatus | None, Query(description="Only files with this status.")] = None,
    reason: Annotated[Reason | None, Query(description="Only files that are not indexed for this reason.")] = None,
    q: Annotated[
        str | None,
        Query(max_length=1024, description="Only files whose path contains this text, in either case."),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[File]:
    """List every file with its outcome, by path."""
    after = from_cursor(cursor, str, UUID)
    rows = files.page(resources.pool, tool["index_id"], status=status, reason=reason, q=q, after=after, limit=limit + 1)
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(
        items=[shown_file(row) for row in rows[:limit]],
        next_cursor=last and to_cursor(last["file_path"], last["file_id"]),
    )


@router.get("/{tool_id}/files/{file_id}")
def get_file(
    tool: ToolDep,
    index: IndexDep,
    file_id: FileId,
    resources: ResourcesDep,
    start_line: Annotated[
        int | None, Query(ge=1, description="First line, counted from 1; default: the first of the file.")
    ] = None,
    end_line: Annotated[
        int | None, Query(ge=1, description="Last line, inclusive; default: the last of the file.")
    ] = None,
    pointer: Annotated[
        str | None, Query(description="JSON pointer to the value to return; default: the whole text.")
    ] = None,
) -> FileText:
    """Get the indexed text of a file: all of it, some lines (inclusive), or the value at a JSON pointer."""
    file = files.get(resources.pool, index.id, file_id)
    if file is None:
        raise NotFound(
            f"This tool has no file {file_id!r}; list them with GET /api/tools/search/{tool['tool_id']}/files."
        )
    return file_text(resources.pool, file, start_line, end_line, pointer)


def wanted_index(
    project_id: str, source: AnySource, config: ToolConfig, resources: Resources, *, model_in_use: str | None = None
) -> tuple[NewIndex, str]:
    """Validate a tool's source and config. Returns the index it needs, and the tool's default name."""
    settings = resources.settings
    _check_following(source, config)
    _check_bounds(config)
    if config.raptor.enabled:
        model_of(config.raptor, settings.values(LlmOptions))
    target = target_of(resources.access(project_id), source)
    Rules(config.include, config.exclude)
    profile, explicit = resources.profile(config.embedding_model, config.dimensions, in_use=model_in_use)
    store = store_name(settings)
    resources.store(store, keyword_index(settings))
    index = IndexSettings(
        embedder=profile,
        explicit_dimensions=explicit,
        chunks=chunk_settings(settings, config.chunk_size, config.chunk_overlap),
        include=tuple(config.include),
        exclude=tuple(config.exclude),
        types=tuple(config.types),
        use_ignore_files=config.use_ignore_files,
        keep=tuple(sorted({*config.keep})),
        max_file_bytes=settings.max_file_bytes,
        min_token_count=config.min_token_count,
        max_token_count=config.max_token_count,
        max_pages=settings.max_pages,
        max_characters=settings.max_characters,
    )
    new_index = NewIndex(
        *(project_id, source, target.folder_node_id, index, store, keyword_index(settings)),
        namespace_prefix=settings.namespace_prefix,
    )
    return new_index, target.name


def _check_bounds(config: ToolConfig) -> None:
    if config.max_token_count is not None and config.max_token_count < config.min_token_count:
        raise Invalid("max_token_count is below min_token_count; swap them.")
    for name in ("include", "exclude", "types"):
        values = getattr(config, name)
        if len(values) > MAX_NAMES or any(len(value) > MAX_PATTERN_CHARACTERS for value in values):
            raise Invalid(
                f"{name} accepts at most {MAX_NAMES:,} patterns of {MAX_PATTERN_CHARACTERS:,} characters; send fewer."
            )


def _check_following(source: AnySource, config: ToolConfig) -> None:
    if config.auto_reindex and not source.follows_edits:
        raise Invalid("auto_reindex works for nodes only; use `watch` for a local folder, or `every` for S3.")
    if config.watch and not source.is_watchable:
        raise Invalid(f"{source.title} does not report changes, so `watch` cannot work; use `every` instead.")


def shown_tool(row: dict[str, Any]) -> Tool:
    """Convert a tool's row to its API form."""
    info = IndexInfo(index_id=row["index_id"], model=row["model"], dimensions=row["dimensions"])
    return Tool(**{**row, "index": info, "updating": _updating(row)})


def _updating(row: dict[str, Any]) -> Updating | None:
    if row["next_index_id"] is None:
        return None
    info = IndexInfo(index_id=row["next_index_id"], model=row["next_model"], dimensions=row["next_dimensions"])
    names = ("config", "namespace", "task_id", "status", "progress")
    return Updating(index=info, **{name: row[f"next_{name}"] for name in names})


def shown_file(row: dict[str, Any]) -> File:
    """Convert a file's row to its API form."""
    message, remedy = row["message"], Reason(row["reason"]).remedy if row["reason"] else None
    if row["chunks"] and not row["embedded"]:
        message, remedy = message or OUTSIDE_BOUNDS, remedy or OUTSIDE_BOUNDS_REMEDY
    shown = {**row, "file_name": row["file_path"].rsplit("/", 1)[-1], "message": message, "remedy": remedy}
    return File.model_validate(shown)


def shown_status(tool_id: UUID, row: dict[str, Any]) -> Status:
    """Convert a task's row to its API form for one tool."""
    over_cost = OVER_COST.format(row["max_cost_tokens"]) if row["over_cost"] else None
    warning = " ".join(filter(None, (over_cost, row["listing_warning"], row["warning"]))) or None
    return Status(**{**row, "task_id": row["id"], "tool_id": tool_id, "eta_seconds": _eta(row), "warning": warning})


def _eta(row: dict[str, Any]) -> float | None:
    """Estimate the remaining seconds from the speed so far; None if that is not known."""
    progress, started = row["progress"], row["started_at"]
    if row["finished_at"] is not None or row["listing"] or started is None or progress < MIN_ETA_PROGRESS:
        return None
    elapsed = (datetime.now(UTC) - started).total_seconds()
    return float(round(elapsed * (1 - progress) / progress, 1))


def existing(row: dict[str, Any] | None) -> dict[str, Any]:
    """The row. Raises `NotFound` if the tool was deleted between two reads."""
    if row is None:
        raise NotFound("The tool was deleted in the meantime; create a new one.")
    return row
