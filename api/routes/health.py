"""Whether the process lives, and whether it can work."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.dependencies import ResourcesDep

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers, also while all its threads wait for Postgres."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(resources: ResourcesDep) -> dict[str, str]:
    """The process can work: Postgres answers. A broker that is down delays tasks and stops nothing.

    `warning` says that the disk has little space left.
    """
    with resources.pool.connection() as connection:
        connection.execute("SELECT 1")
    warning = resources.space.warning()
    return {"status": "ready", **({} if warning is None else {"warning": warning})}
