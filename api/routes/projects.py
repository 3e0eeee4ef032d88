"""Deletes projects. They exist as soon as a request names them, so nothing creates them."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.dependencies import CallerDep, LookupCachesDep, ResourcesDep
from api.http.problems import RESPONSES
from schemas.errors import NotFound
from worker.state.index import tools
from worker.upkeep.orphans import drop

router = APIRouter(prefix="/api/projects", tags=["projects"], responses=RESPONSES)


@router.delete("/{project_id}", status_code=202)
def delete_project(
    project_id: str, caller: CallerDep, resources: ResourcesDep, caches: LookupCachesDep
) -> dict[str, str]:
    """Delete a project's tools, indexes, nodes, contents and keys."""
    caller.check(project_id)
    if not tools.project_exists(resources.pool, project_id):
        raise NotFound(f"There is no project {project_id!r}; check the id.")
    left_behind = tools.delete_project(resources.pool, project_id)
    caches.forget()
    drop(resources, left_behind)
    return {"project_id": project_id, "status": "deleting"}
