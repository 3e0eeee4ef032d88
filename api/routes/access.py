"""Tells what a caller may see."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.bodies import JsonRoute
from api.http.dependencies import CallerDep, ResourcesDep
from schemas.access import Access
from schemas.scopes import listed
from worker.state.index import tools

router = APIRouter(prefix="/api/access", tags=["projects"], route_class=JsonRoute)


@router.get("")
def get_access(caller: CallerDep, resources: ResourcesDep) -> Access:
    """Get the project of the key and what it may do; with AUTH=off, all projects that have tools."""
    own = caller.project_id
    projects = tools.projects(resources.pool) if own is None else [own]
    return Access(
        project_id=own,
        projects=projects,
        scopes=listed(caller.scopes),
        principals=None if caller.principals is None else len(caller.principals),
        flower_url=resources.settings.flower_url,
    )
