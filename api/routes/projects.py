"""Indexes and deletes projects as a whole. They exist as soon as a request names them, so nothing creates them."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path

from api.http.bodies import JsonRoute
from api.http.dependencies import CallerDep, LookupCachesDep, ResourcesDep, needs_space
from api.http.described_errors import raises
from api.indexers import chunks, subject_of
from api.indexers.as_seen import as_seen
from api.routes.paging import Cursor, Limit, from_cursor, to_cursor
from schemas.errors import Conflict, NotFound
from schemas.reindex import Reindex
from schemas.status import Status
from schemas.tool import Listing, ProjectDeleted, Tool
from worker.resources import Resources
from worker.state.index import tools
from worker.upkeep.orphans import drop

router = APIRouter(prefix="/api/projects", tags=["projects"], route_class=JsonRoute)

#: Seconds after which a call starts no further run. A tool whose rows are locked takes some more.
REINDEX_SECONDS = 4.0

ProjectId = Annotated[str, Path(description="Id of the project.", examples=["project-1"])]


@router.post("/{project_id}/reindex", status_code=202, dependencies=[needs_space], openapi_extra=raises(NotFound))
def reindex_project(
    project_id: ProjectId,
    caller: CallerDep,
    resources: ResourcesDep,
    body: Reindex | None = None,
    cursor: Cursor = None,
    limit: Limit = 1000,
) -> Listing[Status]:
    """Index what changed in the folders of all tools of a project, with the same options for each.

    An index that several tools share is run once. The list has the state of each tool, oldest tool first. It ends after
    some seconds: if there is a `next_cursor`, call again with it for the tools that follow. A tool that is changing to
    another index is not renewed; its `warning` says so.
    """
    caller.check(project_id)
    after = from_cursor(cursor, datetime.fromisoformat, UUID)
    limit = tools.fitting(resources.pool, project_id, after, limit)
    rows = tools.page(resources.pool, project_id, after, limit + 1)
    if not rows and not tools.project_exists(resources.pool, project_id):
        raise NotFound(f"There is no project {project_id!r}; check the id.")
    until, refused, statuses = time.monotonic() + REINDEX_SECONDS, dict[UUID, str | None](), list[Status]()
    for number, tool in enumerate(rows[:limit], 1):
        with suppress(NotFound):  # it was deleted meanwhile
            if tool.index.index_id not in refused:
                refused[tool.index.index_id] = _refusal(resources, tool, body or Reindex())
            status = as_seen(chunks.status(resources, subject_of(tool)), caller, may_hide=tool.may_hide)
            if refusal := refused[tool.index.index_id]:
                status = status.model_copy(update={"warning": refusal})
            statuses.append(status)
        if number == limit or time.monotonic() >= until:
            return Listing(items=statuses, next_cursor=_place(tool) if number < len(rows) else None)
    return Listing(items=statuses, next_cursor=None)


def _refusal(resources: Resources, tool: Tool, asked: Reindex) -> str | None:
    """Index a tool again. Returns why it could not be asked for; None if it could. Raises `NotFound`."""
    try:
        chunks.reindex(resources, tool.tool_id, asked)
    except Conflict as error:  # it changes to another index first
        return str(error)
    return None


def _place(tool: Tool) -> str:
    return to_cursor(tool.created_at, tool.tool_id)


@router.delete("/{project_id}", status_code=202)
def delete_project(
    project_id: ProjectId, caller: CallerDep, resources: ResourcesDep, caches: LookupCachesDep
) -> ProjectDeleted:
    """Delete a project's tools, indexes, nodes, contents and keys."""
    caller.check(project_id)
    if not tools.project_exists(resources.pool, project_id):
        raise NotFound(f"There is no project {project_id!r}; check the id.")
    left_behind = tools.delete_project(resources.pool, project_id)
    caches.forget()
    drop(resources, left_behind)
    return ProjectDeleted(project_id=project_id)
