"""Liveness and readiness probes. Some monitors ask with HEAD."""

from __future__ import annotations

from fastapi import APIRouter

from api.http.dependencies import ResourcesDep, known_caller
from schemas.health import Alive, HostFinding, HostProcess, Hosts, Ready
from worker.hosts import compare
from worker.state import open_work, silent_backends, store_directories
from worker.state.hosts import HostProcess as NotedProcess
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
    sees another directory of vectors or contents than the installation has, when a session of Postgres holds locks for
    long, or when hosts differ.
    """
    unwatched = UNWATCHED if open_work.sweep_age(resources.pool) > UNWATCHED_SECONDS else None
    blockers = map(str, silent_backends.blockers(resources.pool))
    refused = dict.fromkeys([*resources.refused().values(), *store_directories.refusals(resources.pool)])
    differ = " ".join(finding.sentence for finding in compare.findings(resources.pool)) or None
    warnings = (resources.space.warning(), unwatched, *refused, *blockers, differ)
    return Ready(warning=" ".join(filter(None, warnings)) or None, hosts=differ)


@router.get("/api/hosts", dependencies=[known_caller])
def get_hosts(resources: ResourcesDep) -> Hosts:
    """List the processes on all hosts, and what differs between them. It shows no values of settings."""
    processes, findings = compare.survey(resources.pool)
    return Hosts(
        processes=[_shown(process) for process in processes],
        findings=[HostFinding(what=finding.what, detail=str(finding)) for finding in findings],
    )


def _shown(process: NotedProcess) -> HostProcess:
    return HostProcess(
        name=process.name,
        host=str(process.host),
        role=process.role,
        queues=process.queues,
        release=process.release,
        clock_seconds=process.clock_seconds,
        reaches=sorted(service for service, failure in process.reached.items() if failure is None),
        unseen_seconds=round(process.unseen_seconds, 1),
    )
