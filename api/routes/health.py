"""Liveness and readiness probes."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.dependencies import ResourcesDep

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Liveness: answers even while all threads wait for Postgres."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(resources: ResourcesDep) -> dict[str, str]:
    """Readiness: Postgres answers. The broker is not checked, as an outage only delays tasks.

    `warning` is set when the disk is low on space.
    """
    with resources.pool.connection() as connection:
        connection.execute("SELECT 1")
    warning = resources.space.warning()
    return {"status": "ready", **({} if warning is None else {"warning": warning})}
