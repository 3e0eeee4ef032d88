"""What the code of a folder defines, and where names are used."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from api.deps import IndexDep, ResourcesDep, from_cursor, to_cursor
from api.problems import RESPONSES
from schemas.errors import Invalid
from schemas.symbol import Symbol, Use
from schemas.tool import Listing
from worker.state import symbols

router = APIRouter(prefix="/api/tools/search/{tool_id}", tags=["symbols"], responses=RESPONSES)

Limit = Annotated[int, Query(ge=1, le=1000)]
Name = Annotated[str | None, Query(min_length=1, max_length=1024)]


@router.get("/symbols")
def list_symbols(
    index: IndexDep,
    resources: ResourcesDep,
    name: Name = None,
    prefix: Name = None,
    kind: Name = None,
    cursor: str | None = None,
    limit: Limit = 100,
) -> Listing[Symbol]:
    """Definitions in code (classes, functions, methods, …) by name: all, one name's, or those that begin so."""
    after = from_cursor(cursor, str, UUID, int)
    rows = symbols.definitions(
        resources.pool, index.id, name=name, prefix=prefix, kind=kind, after=after, limit=limit + 1
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(
        items=[Symbol(**row) for row in rows[:limit]],
        next_cursor=last and to_cursor(last["name"], last["file_id"], last["number"]),
    )


@router.get("/references")
def list_references(
    index: IndexDep,
    resources: ResourcesDep,
    name: Name = None,
    kind: Name = None,
    file_id: UUID | None = None,
    scope: Annotated[
        str | None, Query(min_length=1, max_length=8192, description="Uses inside this definition, `outer/inner`.")
    ] = None,
    cursor: str | None = None,
    limit: Limit = 100,
) -> Listing[Use]:
    """Where a name is called, imported, inherited or a type; with `file_id` and `scope`, what a definition uses."""
    if name is None and file_id is None:
        raise Invalid("Say what is used (name), or where (file_id, and scope if you like).")
    after = from_cursor(cursor, UUID, int)
    rows = symbols.references(
        resources.pool, index.id, name=name, kind=kind, file=file_id, scope=scope, after=after, limit=limit + 1
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(
        items=[Use(**row) for row in rows[:limit]], next_cursor=last and to_cursor(last["file_id"], last["number"])
    )
