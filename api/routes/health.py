"""Liveness and readiness probes. Some monitors ask with HEAD."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.dependencies import ResourcesDep
from schemas.health import Alive, Ready
from worker.state import open_work, silent_backends, store_directories
from worker.state.open_work import UNWATCHED, UNWATCHED_SECONDS

router = APIRouter(tags=["health"])


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz() -> Alive:
    """Liveness: answers even while all threads wait for Postgres."""
    return Alive()


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model_exclude_none=True)
def readyz(resources: ResourcesDep) -> Ready:
    """Readiness: Postgres answers. The broker is not checked, as an outage only delays tasks.

    `warning` is set when the disk is low on space, when no worker has looked for work for half a minute, when a process
    sees another directory of vectors or contents than the installation has, or when a session of Postgres holds locks
    for long.
    """
    unwatched = UNWATCHED if open_work.sweep_age(resources.pool) > UNWATCHED_SECONDS else None
    blockers = map(str, silent_backends.blockers(resources.pool))
    refused = dict.fromkeys([*resources.refused().values(), *store_directories.refusals(resources.pool)])
    return Ready(warning=" ".join(filter(None, (resources.space.warning(), unwatched, *refused, *blockers))) or None)
