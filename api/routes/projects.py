"""Indexes and deletes projects as a whole. They exist as soon as a request names them, so nothing creates them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path

from api.http.bodies import JsonRoute
from api.http.dependencies import CallerDep, LookupCachesDep, ResourcesDep, needs_space
from api.http.described_errors import raises
from api.indexers import chunks, subject_of
from schemas.errors import NotFound
from schemas.tool import Listing, ProjectDeleted, Reindex, Status
from worker.resources import Resources
from worker.state.index import tools
from worker.upkeep.orphans import drop

router = APIRouter(prefix="/api/projects", tags=["projects"], route_class=JsonRoute)

#: Tools that are read at a time.
_PAGE = 1000

ProjectId = Annotated[str, Path(description="Id of the project.", examples=["project-1"])]


@router.post("/{project_id}/reindex", status_code=202, dependencies=[needs_space], openapi_extra=raises(NotFound))
def reindex_project(
    project_id: ProjectId, caller: CallerDep, resources: ResourcesDep, body: Reindex | None = None
) -> Listing[Status]:
    """Index what changed in the folders of all tools of a project, with the same options for each.

    An index that several tools share is run once. The list has the state of each tool, oldest tool first.
    """
    caller.check(project_id)
    found = list(_tools_of(resources, project_id))
    if not found and not tools.project_exists(resources.pool, project_id):
        raise NotFound(f"There is no project {project_id!r}; check the id.")
    for tool in {tool["index_id"]: tool for tool in found}.values():
        with suppress(NotFound):  # it was deleted meanwhile
            chunks.reindex(resources, tool["tool_id"], body or Reindex())
    statuses = []
    for tool in found:
        with suppress(NotFound):
            statuses.append(chunks.status(resources, subject_of(tool)))
    return Listing(items=statuses, next_cursor=None)


def _tools_of(resources: Resources, project_id: str) -> Iterator[dict[str, Any]]:
    """The rows of all tools of a project, oldest first."""
    after: tuple[datetime, UUID] | None = None
    while rows := tools.page(resources.pool, project_id, after, _PAGE):
        yield from rows
        after = rows[-1]["created_at"], rows[-1]["tool_id"]


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
