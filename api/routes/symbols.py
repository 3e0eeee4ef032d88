"""Lists definitions in a folder's code, and where names are used."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from api.http.dependencies import IndexDep, ResourcesDep, from_cursor, to_cursor
from api.http.problems import RESPONSES
from schemas.document import Kind, UseKind
from schemas.errors import Invalid
from schemas.symbol import Call, Calls, Symbol, Use
from schemas.tool import Listing
from worker.resources import Resources
from worker.state.index.tools import Index
from worker.state.search import call_graph, symbols

router = APIRouter(prefix="/api/tools/search/{tool_id}", tags=["symbols"], responses=RESPONSES)

Limit = Annotated[int, Query(ge=1, le=1000)]
Name = Annotated[str | None, Query(min_length=1, max_length=1024)]
Scope = Annotated[str | None, Query(min_length=1, max_length=8192)]
_CALLED = Query(
    min_length=1, max_length=8192, description="A name, or a qualified one: `Foo.run`, `Foo::run`, `Foo/run`."
)
Called = Annotated[str, _CALLED]
Depth = Annotated[int, Query(ge=1, le=5)]


@router.get("/symbols")
def list_symbols(
    index: IndexDep,
    resources: ResourcesDep,
    name: Annotated[str | None, _CALLED] = None,
    prefix: Name = None,
    kind: Kind | None = None,
    cursor: str | None = None,
    limit: Limit = 100,
) -> Listing[Symbol]:
    """List definitions by name, then path and line: all, those of one name, or those with a prefix."""
    after = from_cursor(cursor, str, str, UUID, int)
    rows = symbols.definitions(
        resources.pool, index.id, name=name, prefix=prefix, kind=kind, after=after, limit=limit + 1
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(
        items=[Symbol(**row) for row in rows[:limit]],
        next_cursor=last and to_cursor(*(last[part] for part in ("name", "file_path", "file_id", "number"))),
    )


@router.get("/references")
def list_references(
    index: IndexDep,
    resources: ResourcesDep,
    name: Name = None,
    kind: UseKind | None = None,
    file_id: UUID | None = None,
    scope: Annotated[
        str | None, Query(min_length=1, max_length=8192, description="Uses inside this definition, `outer/inner`.")
    ] = None,
    cursor: str | None = None,
    limit: Limit = 100,
) -> Listing[Use]:
    """List where a name is called, imported, inherited or used as a type.

    With `file_id` and `scope`, list what a definition uses.
    """
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


@router.get("/symbols/callers")
def list_callers(
    index: IndexDep,
    resources: ResourcesDep,
    name: Called,
    depth: Depth = 1,
    scope: Scope = None,
    file_id: UUID | None = None,
) -> Calls:
    """List the definitions that call this name, their callers, and so on up to `depth`.

    `scope` and `file_id` select one of several definitions of the name.
    """
    start = _start(resources, index, name, scope, file_id)
    found = call_graph.callers(resources.pool, index.id, start, depth)
    near = {row["file_id"] for row in found[0] if row["depth"] == 1}
    return _shown(name, start, found, ambiguous=start.is_shared and not near <= start.own)


@router.get("/symbols/callees")
def list_callees(
    index: IndexDep,
    resources: ResourcesDep,
    name: Called,
    depth: Depth = 1,
    scope: Scope = None,
    file_id: UUID | None = None,
) -> Calls:
    """List what the definitions of this name call, what those call, and so on up to `depth`.

    `scope` and `file_id` select one of several definitions of the name.
    """
    start = _start(resources, index, name, scope, file_id)
    return _shown(name, start, call_graph.callees(resources.pool, index.id, start, depth))


def _start(resources: Resources, index: Index, name: str, scope: str | None, file_id: UUID | None) -> call_graph.Start:
    around, last = symbols.qualified(name)
    path = "/".join(filter(None, (scope, around)))
    return call_graph.start(resources.pool, index.id, last, scope=path, file=file_id)


def _shown(
    name: str, start: call_graph.Start, found: tuple[list[dict[str, Any]], bool], *, ambiguous: bool = False
) -> Calls:
    rows, is_cut = found
    count = len(start.definitions)
    items = [Call(**row) for row in rows]
    return Calls(name=name, definitions=count, ambiguous=count > 1 or ambiguous, items=items, truncated=is_cut)
