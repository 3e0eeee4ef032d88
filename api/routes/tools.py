"""Creates, lists and deletes search tools, and shows their tasks and files."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from api.http import large_answers
from api.http.bodies import JsonRoute
from api.http.dependencies import (
    CachedIndexDep,
    Caller,
    CallerDep,
    IndexDep,
    LookupCachesDep,
    ResourcesDep,
    ToolDep,
    ToolId,
    needs_space,
    of_tool,
)
from api.http.described_errors import raises
from api.http.disconnect import DisconnectDep
from api.http.sight import SeenIndex
from api.indexers import Subject, chunks, model_choice, subject_of
from api.indexers.as_seen import as_seen, tool_as_seen
from api.indexers.chunks import shown_status
from api.indexers.registry import check_derived, drop_derived
from api.routes.paging import Cursor, Limit, from_cursor, page
from api.routes.search.metadata_keys import FilterParameter, selected_among
from api.search.text.file_text import file_text
from api.search.text.metadata_warning import warnings_of
from api.search.text.visibility import visible_files
from schemas.content.source import AnySource, NodesSource
from schemas.errors import (
    EmbeddingUnavailable,
    EstimateBusy,
    FolderGone,
    LlmNotConfigured,
    ModelNotAllowed,
    ModelRefused,
    NotFound,
    ScopeMissing,
    SourceBusy,
    SourceRefused,
    SourceUnavailable,
    TooManyTools,
)
from schemas.estimate import Estimate
from schemas.reason import FileStatus, Reason
from schemas.status import Status
from schemas.tool import (
    File,
    FileText,
    Listing,
    NewTool,
    Tool,
    ToolConfig,
    ToolDeleted,
)
from worker import app as queue
from worker import dispatch
from worker.resources import Resources
from worker.state.access import acl
from worker.state.index import file_lookup, statuses, tools
from worker.state.index.file_lookup import LiveFile
from worker.state.index.statuses import TaskOfTool
from worker.state.index.tool_actions import GONE
from worker.state.index.tools import NewIndex

router = APIRouter(prefix="/api/tools/search", tags=["search tools"], route_class=JsonRoute)

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

ListedProject = Annotated[
    str | None, Query(description="Project whose tools to list; default: all that the key may see.")
]

OUTSIDE_BOUNDS = "The file's length is outside the tool's token bounds: it is found by its words only."
OUTSIDE_BOUNDS_REMEDY = "Change min_token_count or max_token_count of the tool's config to have it embedded."


@router.post(
    "",
    status_code=202,
    response_model=Tool,
    responses={200: {"model": Estimate, "description": "The estimate of a dry run."}},
    dependencies=[needs_space],
    openapi_extra=raises(NotFound, EstimateBusy, SourceBusy, TooManyTools, *CONFIG_ERRORS),
)
def create_tool(body: NewTool, caller: CallerDep, resources: ResourcesDep) -> Tool | Response:
    """Create a tool over a folder and start indexing it. Poll its status; it can be queried meanwhile.

    With `reuse`, many callers at a time get one tool. With `dry_run` nothing is created or stored: the answer is an
    estimate of files, tokens and cost.
    """
    caller.check(body.project_id)
    source = body.source or NodesSource(node_id=body.node_id or "", json_pointer=body.json_pointer)
    if body.dry_run:
        check_counted(resources, caller, body.project_id, source)
        check_derived(resources, body.config)
        expected = chunks.estimate(resources, Subject(body.project_id, source, body.config))
        return JSONResponse(expected.model_dump(mode="json"))
    new_index, name = wanted_index(body.project_id, source, body.config, resources)
    name, most = body.name or name, resources.settings.max_tools
    if body.reuse:
        made = tools.create_over_source(resources.pool, new_index, name=name, config=body.config, most=most)
        tool_id, task_id = made.tool_id, made.task_id
        if not made.is_new:
            dispatch.reindex(resources.pool, tool_id)
    else:
        tool_id, task_id = tools.create(resources.pool, new_index, name=name, config=body.config, most=most)
    if task_id is not None:
        queue.post_plan(task_id, tool_id)
    return tool_as_seen(existing(tools.get(resources.pool, tool_id)), caller)


def check_counted(resources: Resources, caller: Caller, project_id: str, source: AnySource) -> None:
    """Raise `ScopeMissing` if an estimate would count files that lists may hide from the caller.

    It does not matter whether they do. Rules hide nothing here: whoever may make tools can make one without.
    """
    node_id = source.content_node
    if caller.sight.is_whole or node_id is None or not acl.may_hide_below(resources.pool, project_id, node_id):
        return
    raise ScopeMissing(
        "An estimate counts all files, and access lists may hide some of these from you; use a key with the scope "
        "`all_documents`, and name no principals.",
        scope="all_documents",
    )


@router.get("", openapi_extra=raises(NotFound))
def list_tools(
    caller: CallerDep,
    resources: ResourcesDep,
    project_id: ListedProject = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[Tool]:
    """List the tools of a project, oldest first. A page ends early where their configs are large."""
    listed = _listed(caller, project_id, cursor)
    fitting = tools.fitting(resources.pool, *listed, limit)
    read = partial(tools.page, resources.pool, *listed)
    return page(read, fitting, lambda tool: tool_as_seen(tool, caller), attrgetter("created_at", "tool_id"))


@router.get("/statuses", openapi_extra=raises(NotFound))
def list_statuses(
    caller: CallerDep,
    resources: ResourcesDep,
    project_id: ListedProject = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[Status]:
    """List the progress of the newest task of each tool of a project, oldest tool first."""
    read = partial(statuses.newest_of_tools, resources.pool, *_listed(caller, project_id, cursor))
    return page(read, limit, partial(status_as_seen, caller), attrgetter("tool_created_at", "tool_id"))


def _listed(caller: Caller, project_id: str | None, cursor: str | None) -> tuple[str | None, tuple[Any, ...] | None]:
    """The project whose tools are listed, None for all, and the place of the tool after which the page begins."""
    if project_id is not None:
        caller.check(project_id)
    return project_id or caller.project_id, from_cursor(cursor, datetime.fromisoformat, UUID)


@router.get("/{tool_id}")
def get_tool(tool: ToolDep, caller: CallerDep) -> Tool:
    """Get a tool with the state of its newest task."""
    return tool_as_seen(tool, caller)


@router.delete("/{tool_id}", status_code=202)
def delete_tool(tool: ToolDep, resources: ResourcesDep, caches: LookupCachesDep) -> ToolDeleted:
    """Delete a tool, and its index unless another tool shares it."""
    subject = subject_of(tool)
    chunks.drop(resources, subject)
    drop_derived(resources, subject)
    caches.forget()
    return ToolDeleted(tool_id=tool.tool_id)


@router.get("/{tool_id}/status")
def get_status(tool_id: ToolId, index: CachedIndexDep, caller: CallerDep, resources: ResourcesDep) -> Status:
    """Get the progress of the newest task. File and chunk counts describe the present index."""
    task = of_tool(statuses.newest_of_tool, tool_id, caller, resources)
    shown = status_as_seen(caller, task)
    sees_all = caller.sight.is_whole or not task.may_hide
    # a caller who may change rules hears which ones match no file, even if it may not read all files
    if sees_all or "write" in caller.scopes:
        found = warnings_of(resources.pool, index.id, index.metadata)
        of_files = (found.mistyped, model_choice.warning_of(resources, index, task)) if sees_all else ()
        shown.warning = " ".join(filter(None, (shown.warning, *of_files, found.unmatched))) or None
    return shown


@router.get("/{tool_id}/tasks")
def list_tasks(
    tool: ToolDep, caller: CallerDep, resources: ResourcesDep, cursor: Cursor = None, limit: Limit = 100
) -> Listing[Status]:
    """List the tasks over the tool's index and over the one being built for it, newest first."""
    before = from_cursor(cursor, datetime.fromisoformat, UUID)
    read = partial(statuses.history, resources.pool, tool.tool_id, before)
    return page(read, limit, partial(status_as_seen, caller), attrgetter("created_at", "task_id"))


@router.get("/{tool_id}/files")
def list_files(
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    status: Annotated[FileStatus | None, Query(description="Only files with this status.")] = None,
    reason: Annotated[Reason | None, Query(description="Only files that are not indexed for this reason.")] = None,
    q: Annotated[
        str | None,
        Query(max_length=1024, description="Only files whose path contains this text, in either case."),
    ] = None,
    metadata: FilterParameter = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[File]:
    """List every file with its outcome, by path."""
    wanted = file_lookup.Wanted(status, reason, q, from_cursor(cursor, str, UUID))
    visible = visible_files(resources.pool, index, disconnect.check)
    by_path = visible.by_path if visible is not None and metadata is None else None

    def read(most: int) -> list[File]:
        found = None
        if by_path is not None:
            found = file_lookup.page_of_some(
                resources.pool, index.id, wanted, by_path, limit=most, check=disconnect.check
            )
        if found is not None:
            return found
        only = selected_among(resources, index, metadata, visible, disconnect)
        return file_lookup.page(resources.pool, index.id, wanted, only=only, limit=most)

    return page(read, limit, shown_file, attrgetter("file_path", "file_id"))


@router.get("/{tool_id}/files/{file_id}", response_model=FileText, openapi_extra=raises(SourceBusy))
def get_file(
    tool_id: ToolId,
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
) -> Response:
    """Get the indexed text of a file: all of it, some lines (inclusive), or the value at a JSON pointer."""
    file = file_of(resources, index, tool_id, file_id)
    with large_answers.text(file.live_chunks, index.project_id):
        text = file_text(resources.pool, resources.helpers(index.project_id), file, start_line, end_line, pointer)
        return Response(text.model_dump_json(), media_type="application/json")


def file_of(resources: Resources, index: SeenIndex, tool_id: str, file_id: str) -> LiveFile:
    """The row of a file of a tool's index that the caller may read. Raises `NotFound`."""
    file = file_lookup.get(resources.pool, index.id, file_id)
    visible = visible_files(resources.pool, index)
    if file is None or (visible is not None and file.id not in visible.ids):
        raise NotFound(f"This tool has no file {file_id!r}; list them with GET /api/tools/search/{tool_id}/files.")
    return file


def wanted_index(
    project_id: str, source: AnySource, config: ToolConfig, resources: Resources, *, tool: Tool | None = None
) -> tuple[NewIndex, str]:
    """Validate a tool's source and config. Returns the index it needs, and the tool's default name."""
    check_derived(resources, config)
    return chunks.index_for(project_id, source, config, resources, tool=tool)


def shown_file(file: File) -> File:
    """Complete a file with its remedy, and say if its length keeps it from being embedded."""
    file = file.model_copy()
    file.remedy = file.reason and file.reason.remedy
    # the vectors of others may follow
    if file.status == FileStatus.INDEXED and file.chunks and not file.embedded:
        file.message = f"{file.message} {OUTSIDE_BOUNDS}" if file.message else OUTSIDE_BOUNDS
        file.remedy = file.remedy or OUTSIDE_BOUNDS_REMEDY
    return file


def status_as_seen(caller: Caller, task: TaskOfTool) -> Status:
    """The status of a task as a caller sees it."""
    return as_seen(shown_status(task), caller, may_hide=task.may_hide)


def existing(tool: Tool | None) -> Tool:
    """The tool. Raises `NotFound` if it was deleted between two reads."""
    if tool is None:
        raise NotFound(GONE)
    return tool
