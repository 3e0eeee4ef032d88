"""Deletes projects. They exist as soon as a request names them, so nothing creates them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.http.bodies import JsonRoute
from api.http.dependencies import CallerDep, LookupCachesDep, ResourcesDep
from schemas.errors import NotFound
from schemas.tool import ProjectDeleted
from worker.state.index import tools
from worker.upkeep.orphans import drop

router = APIRouter(prefix="/api/projects", tags=["projects"], route_class=JsonRoute)

ProjectId = Annotated[str, Path(description="Id of the project.", examples=["project-1"])]


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
