"""`/mcp`: the service as tools of agents. The OpenAPI document leaves it out, because a protocol describes it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from api.http import request_log
from api.http.dependencies import CachedCallerDep, ResourcesDep
from api.identity import principals, resource_metadata
from api.identity.tokens import Tokens
from schemas.errors import NotFound

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


@router.get(resource_metadata.PATH, include_in_schema=False)
@router.get(resource_metadata.PATH + resource_metadata.MCP, include_in_schema=False)
async def get_resource_metadata(request: Request) -> dict[str, object]:
    """Tell agents and other programs who issues the tokens that are taken here."""
    tokens: Tokens | None = request.app.state.tokens
    if tokens is None:
        raise NotFound("This service takes no tokens; its operator can set OIDC_ISSUER, with AUTH=on.")
    return tokens.metadata.document(request, request.url.path.removeprefix(resource_metadata.PATH))


@router.post("/mcp", include_in_schema=False)
async def mcp(request: Request, caller: CachedCallerDep, resources: ResourcesDep) -> Response:
    """Answer one message of the Model Context Protocol."""
    # the SDK takes a second to load, which only those pay who have agents
    await run_in_threadpool(import_module, "api.agents.http")
    from api.agents.http import ConnectedCaller

    headers = request_log.headers() | principals.passed_on(request.headers)
    known = ConnectedCaller(request.app, caller.project_id, caller.refusal, headers)
    return _ProtocolResponse(known, allow_delete=resources.settings.mcp_allow_delete)
