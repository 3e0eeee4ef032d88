"""`/mcp`: the service as tools of agents. The OpenAPI document leaves it out, because a protocol describes it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from api.http import request_log
from api.http.dependencies import CachedCallerDep, ResourcesDep

if TYPE_CHECKING:
    from api.agents.http import ConnectedCaller

router = APIRouter()


class _ProtocolResponse(Response):
    """Hands the connection over to the SDK of the protocol, which is loaded."""

    def __init__(self, caller: ConnectedCaller, *, allow_delete: bool) -> None:
        super().__init__()
        self._caller, self._allow_delete = caller, allow_delete

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        from api.agents.http import answer

        await answer(scope, receive, send, caller=self._caller, allow_delete=self._allow_delete)


@router.post("/mcp", include_in_schema=False)
async def mcp(request: Request, caller: CachedCallerDep, resources: ResourcesDep) -> Response:
    """Answer one message of the Model Context Protocol."""
    # the SDK takes a second to load, which only those pay who have agents
    await run_in_threadpool(import_module, "api.agents.http")
    from api.agents.http import ConnectedCaller

    known = ConnectedCaller(request.app, caller.project_id, caller.refusal, request_log.headers())
    return _ProtocolResponse(known, allow_delete=resources.settings.mcp_allow_delete)
