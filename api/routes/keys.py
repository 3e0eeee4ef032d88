"""Creates, lists, replaces and revokes the keys of a project."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from api.http.bodies import JsonRoute
from api.http.dependencies import Caller, CallerDep, LookupCachesDep, ResourcesDep
from api.http.described_errors import raises
from api.identity.tokens import TokenHolder
from api.routes.content.nodes import ProjectId
from api.routes.paging import Cursor, Limit, from_cursor, to_cursor
from schemas.access import ApiKey, CreatedKey, KeyRotation, NewKey
from schemas.errors import Conflict, LastAdminKey, NotFound, ScopeMissing
from schemas.tool import Listing
from worker.state.access import keys

router = APIRouter(prefix="/api/projects/{project_id}/keys", tags=["projects"], route_class=JsonRoute)

KeyId = Annotated[str, Path(description="Id of the key.", examples=["3e7a4a0e-41f7-4a9c-9a55-7f0c5a7d1b22"])]


@router.post("", status_code=201, openapi_extra=raises(Conflict))
def create_key(
    project_id: ProjectId, body: NewKey, caller: CallerDep, resources: ResourcesDep, response: Response
) -> CreatedKey:
    """Create a key, and show it once. It may not allow more than the key that asks, nor live longer."""
    caller.check(project_id)
    made = keys.create(resources.pool, project_id, body.name, body.scopes, body.expires, by=_id(caller))
    return _shown_once(made, response)


@router.get("")
def list_keys(
    project_id: ProjectId, caller: CallerDep, resources: ResourcesDep, cursor: Cursor = None, limit: Limit = 100
) -> Listing[ApiKey]:
    """List the keys of a project, oldest first, also revoked and expired ones. No key is shown itself."""
    caller.check(project_id)
    rows = keys.page(resources.pool, project_id, from_cursor(cursor, datetime.fromisoformat, UUID), limit + 1)
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(items=rows[:limit], next_cursor=last and to_cursor(last.created_at, last.id))


@router.post("/{key_id}/rotate", status_code=201, openapi_extra=raises(Conflict))
def rotate_key(
    project_id: ProjectId,
    key_id: KeyId,
    caller: CallerDep,
    resources: ResourcesDep,
    caches: LookupCachesDep,
    response: Response,
    body: KeyRotation | None = None,
) -> CreatedKey:
    """Create a key with the same name and scopes, and show it once. The old one ends after `overlap`."""
    caller.check(project_id)
    asked = body or KeyRotation()
    made = keys.rotate(
        resources.pool, _key_id(key_id), asked.overlap, asked.expires, project_id=project_id, by=_id(caller)
    )
    caches.forget()
    return _shown_once(made, response)


@router.delete("/{key_id}", openapi_extra=raises(LastAdminKey))
def revoke_key(
    project_id: ProjectId, key_id: KeyId, caller: CallerDep, resources: ResourcesDep, caches: LookupCachesDep
) -> ApiKey:
    """Revoke a key immediately. The last key with the scope `admin` stays: only the operator can revoke it."""
    caller.check(project_id)
    revoked = keys.revoke(resources.pool, _key_id(key_id), project_id=project_id, keep_admin=True)
    caches.forget()
    return revoked.row


def _id(caller: Caller) -> UUID | None:
    """The key that asks; None: the operator."""
    if isinstance(caller.key, TokenHolder):
        raise ScopeMissing.of("admin", caller.scopes)
    return None if caller.key is None else caller.key.id


def _key_id(key_id: str) -> UUID:
    """An id that is no UUID answers as any other unknown one."""
    try:
        return UUID(key_id)
    except ValueError:
        raise NotFound(f"There is no key with the id {key_id!r}; list the keys to see their ids.") from None


def _shown_once(made: tuple[ApiKey, str], response: Response) -> CreatedKey:
    row, key = made
    response.headers["Cache-Control"] = "no-store"
    return CreatedKey(**row.model_dump(), key=key)
